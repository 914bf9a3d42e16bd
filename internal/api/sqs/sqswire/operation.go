package sqswire

// An Operation is what the codecs know about an action of SQS.
type Operation struct {
	Name string

	// Void is true when the operation has no response members: its answer is an empty object in
	// JSON, and has no result element in XML.
	Void bool
}
