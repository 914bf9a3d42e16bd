package enginetest

import "tenaq/internal/engine"

// commands is everything a script can say.
var commands map[string]func(*Player, *args, []string) (string, error)

func init() {
	commands = map[string]func(*Player, *args, []string) (string, error){
		// Actions of SQS.
		"create":           (*Player).create,
		"delete-queue":     (*Player).deleteQueue,
		"list-queues":      (*Player).listQueues,
		"url":              (*Player).url,
		"set":              (*Player).set,
		"get":              (*Player).get,
		"tag":              (*Player).tag,
		"untag":            (*Player).untag,
		"tags":             (*Player).tags,
		"permit":           (*Player).permit, // AddPermission
		"forbid":           (*Player).forbid, // RemovePermission
		"purge":            (*Player).purge,
		"send":             (*Player).send,
		"send-batch":       (*Player).sendBatch,
		"receive":          (*Player).receive,
		"delete":           (*Player).delete,
		"delete-batch":     (*Player).deleteBatch,
		"visibility":       (*Player).visibility,
		"visibility-batch": (*Player).visibilityBatch,
		"nack-batch":       (*Player).nackBatch, // not of SQS
		"sources":          (*Player).sources,
		"move-start":       (*Player).moveStart,
		"move-list":        (*Player).moveList,
		"move-cancel":      (*Player).moveCancel,

		// Beyond SQS.
		"find": (*Player).find, // a message, by its id or its lineage

		// Records.
		"record-put":    (*Player).recordPut,
		"record-get":    (*Player).recordGet,
		"record-delete": (*Player).recordDelete,
		"record-list":   (*Player).recordList,
		// Operations that only /v1 has.
		"task-start":  (*Player).taskStart,
		"task-count":  (*Player).taskCount,
		"task-list":   (*Player).taskList,
		"task-pause":  taskChange(engine.PauseTask),
		"task-resume": taskChange(engine.ResumeTask),
		"task-cancel": taskChange(engine.CancelTask),
		"task-rate":   taskChange(engine.SetTaskRate),
		"replace":     (*Player).replace,
		"actions":     (*Player).actions,
		"log-action":  (*Player).logAction,
		"groups":      (*Player).groups,
		"release":     (*Player).release,
		"peek":        (*Player).peek,    // the states of its messages
		"history":     (*Player).history, // not of SQS

		// Shorthands.
		"counters":     (*Player).counters,    // get, for the three counters
		"survey":       (*Player).survey,      // where the messages are, and what was counted
		"fill":         (*Player).fill,        // many equal sends
		"receive-many": (*Player).receiveMany, // receives, ten at a time, without showing them
		"drain":        (*Player).drain,       // receives and deletes, all or n messages
		"create-many":  (*Player).createMany,  // queues q0001 and so on
		// tags tag01 and so on, on a queue that is there or is created
		"tag-many": (*Player).tagMany,

		// The world around the engine.
		"advance":   (*Player).advance,
		"hold":      (*Player).holdExpiry,
		"disk-full": (*Player).noHistory,
		"config":    (*Player).config,
		"restart":   (*Player).restart,
		"stamp":     (*Player).stamp,
		"sweep":     (*Player).sweep,
		"turn":      (*Player).beginTurn,
		"end":       (*Player).endTurn,
		"rows":      (*Player).rows,
		"stirred":   (*Player).stirred,

		// Operations of the broker itself.
		"move-step":    (*Player).moveStep,
		"tick":         (*Player).tick,
		"record-sweep": (*Player).recordSweep,
	}
}
