package engine

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tenaq/internal/work/extension"
	"tenaq/internal/work/sqslimits"
)

// withTags returns the tags of a queue with more tags, in order of key. [TAG-2, TAG-14]
func withTags(queue string, fifo bool, tags, more []Tag) ([]Tag, *Error) {
	tags = slices.Clone(tags)
	for _, t := range more {
		if err := checkTag(t, fifo); err != nil {
			return nil, err
		}
		t = Tag{Key: strings.Clone(t.Key), Value: strings.Clone(t.Value)}
		i, found := searchTag(tags, t.Key)
		if found {
			tags[i] = t
		} else {
			tags = slices.Insert(tags, i, t)
		}
	}
	if len(tags) > sqslimits.TagsMax { // [TAG-11]
		return nil, invalid("Too many tags added for queue " + queue + ".")
	}
	return tags, checkTogether(tags, fifo)
}

// checkTogether refuses tags of which one has no effect because another is missing, or is there.
func checkTogether(tags []Tag, fifo bool) *Error {
	keys := make([]string, len(tags))
	for i, t := range tags {
		keys[i] = t.Key
	}
	if reason := extension.CheckTogether(keys, fifo); reason != "" {
		return invalid(reason)
	}
	return nil
}

func searchTag(tags []Tag, key string) (int, bool) {
	return slices.BinarySearchFunc(tags, key, func(t Tag, key string) int {
		return cmp.Compare(t.Key, key)
	})
}

func checkTag(t Tag, fifo bool) *Error {
	switch n := utf8.RuneCountInString(t.Key); {
	case n < 1 || n > 128: // [TAG-6]
		return invalid("Tag keys must be between 1 and 128 characters in length.")
	case utf8.RuneCountInString(t.Value) > 256: // [TAG-7]
		return invalid("Tag values must be between 0 and 256 characters in length.")
	case strings.HasPrefix(t.Key, extension.ScheduleTag) && strings.ContainsAny(t.Value, "*,"):
		return errValue(t.Value, t.Key, "SQS allows no asterisk and no comma in a tag: write x for "+
			"the one and + for the other, such as 0 3 x x MON+FRI.") // [SCHED-2]
	case !isTagText(t.Key) || !isTagText(t.Value): // [TAG-8]
		return invalid("Tag keys and values can only contain letters, digits, whitespace and _ . : / = + - @.")
	case strings.HasPrefix(strings.ToLower(t.Key), "aws:"): // [TAG-9]
		return invalid("Tag keys beginning with aws: are reserved.")
	case strings.HasPrefix(t.Key, extension.Prefix): // [TAG-10]
		return checkExtension(t, fifo)
	}
	return nil
}

func isTagText(s string) bool {
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsSpace(r) &&
			!strings.ContainsRune("_.:/=+-@", r) {
			return false
		}
	}
	return true
}

// TagQueue sets tags, all of the given ones or none.
type TagQueue struct {
	Queue QueueName
	Tags  []Tag
}

func (op *TagQueue) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if len(op.Tags) == 0 { // [TAG-12]
		return errMissing("Tags")
	}
	tags, err := withTags(op.Queue.Name, q.fifo(), q.row.Tags, op.Tags)
	if err != nil {
		return err
	}
	keeps := func(t Tag) bool { return t.Key == extension.History }
	if slices.ContainsFunc(op.Tags, keeps) && !e.ready(q) {
		return ErrAgain // what has expired before ends by the tags as they were [HIST-1]
	}
	return e.retag(q, tags)
}

// retag gives a queue other tags.
func (e *Engine) retag(q *queue, tags []Tag) *Error {
	if _, fair := searchTag(tags, extension.Fair); fair != q.ext.Fair &&
		(!e.settled(q) || !fair && !e.endFair(q)) {
		return ErrAgain
	}
	if _, holds := searchTag(tags, extension.OnDeadLetter); !holds && q.ext.HoldGroup &&
		!e.freeAll(q) {
		return ErrAgain
	}
	old := q.row.Tags
	q.row.Tags = tags
	e.applyExtensions(q)
	e.reschedule(q.name, old, tags)
	e.writeRow(q)
	return nil
}

// UntagQueue removes tags. Removing one that is not there succeeds. [TAG-5]
type UntagQueue struct {
	Queue QueueName
	Keys  []string
}

func (op *UntagQueue) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	if len(op.Keys) == 0 { // [TAG-13]
		return errMissing("TagKeys")
	}
	tags := slices.DeleteFunc(slices.Clone(q.row.Tags), func(t Tag) bool {
		return slices.Contains(op.Keys, t.Key)
	})
	if err := checkTogether(tags, q.fifo()); err != nil {
		return err
	}
	return e.retag(q, tags)
}

// ListQueueTags reads the tags of a queue, in order of key.
type ListQueueTags struct {
	Queue QueueName

	Tags []Tag // the answer
}

func (op *ListQueueTags) apply(e *Engine, _ *Command) *Error {
	q, err := e.lookup(op.Queue)
	if err != nil {
		return err
	}
	op.Tags = q.row.Tags
	return nil
}
