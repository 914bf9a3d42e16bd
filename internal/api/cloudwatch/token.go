package cloudwatch

import (
	"encoding/base64"
	"strings"
)

// A token says where the next page begins: after a place, which may have gone since. It is good
// for the operation that gave it, and outlives a restart of the server.

// token returns the token for what follows a place.
func (c *call) token(place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.op.name + "\n" + place))
}

// readToken returns the place of a token, empty for none.
func (c *call) readToken(token string) (place string, err error) {
	if token == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	place, ours := strings.CutPrefix(string(b), c.op.name+"\n")
	if err != nil || !ours || place == "" {
		return "", errToken
	}
	return place, nil
}

var errToken = &Error{InvalidNextToken,
	"NextToken was not issued by this operation: start again without it."}
