package bench

import "math/rand/v2"

// Bodies are random texts of the same size, hardly two of them alike. They need no escapes, and
// compress by a quarter at most.
type Bodies struct {
	text string // each body is a part of it
	size int
}

// bodyPlaces is in how many places of the text a body may begin.
const bodyPlaces = 1 << 20

// NewBodies returns bodies of size bytes.
func NewBodies(size int) *Bodies {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := make([]byte, bodyPlaces+size)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return &Bodies{string(text), size}
}

// Next returns a body.
func (b *Bodies) Next() string {
	from := rand.IntN(bodyPlaces)
	return b.text[from : from+b.size]
}
