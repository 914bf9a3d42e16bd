package v1

import (
	"net/http"
	"time"

	"tenaq/internal/door/auth"
)

// A session is the answer to the routes of /v1/session: what GET /v1 says, and what a page of the
// console must know besides. [CONSOLE-10]
type session struct {
	description
	Open     bool       `json:"open" doc:"the server has no keys, so there is nothing to sign in to"`
	ReadOnly bool       `json:"readOnly" doc:"pages of this server may change nothing"`
	Ends     *time.Time `json:"ends,omitempty" doc:"when the session ends at the latest"`
	Proof    string     `json:"proof,omitempty" doc:"in the answer to a sign-in: the value of the header Tenaq-Session of each request"`
}

// showSession answers GET /v1/session.
func (c *call) showSession(none) (session, error) {
	d, err := c.describe(none{})
	s := session{description: d, Open: !c.principal.Signed(), ReadOnly: c.cfg.Door.ReadOnly()}
	if ends, ok := c.principal.Session(); ok {
		s.Ends = &ends
	}
	return s, err
}

// signIn answers POST /v1/session: the door has compared the secret.
func (c *call) signIn(auth.SignIn) (session, error) {
	if !c.principal.Signed() {
		return session{}, &Error{http.StatusBadRequest, "NoKeys",
			"This server has no keys, so there is nothing to sign in to."}
	}
	s, err := c.showSession(none{})
	if err != nil {
		return s, err
	}
	proof, ends, err := c.cfg.Door.NewSession(c.w, c.request, c.principal)
	s.Proof, s.Ends = proof, &ends
	return s, err
}

type signOutIn struct {
	All bool `query:"all" doc:"end every session of the key"`
}

// signOut answers DELETE /v1/session.
func (c *call) signOut(in signOutIn) (none, error) {
	if c.principal.ProxyUser() != "" { // the sessions of the key are of others [CONSOLE-21]
		return none{}, &Error{http.StatusBadRequest, "NoSession",
			"The proxy has signed you in, so there is no session to end here: sign out at the proxy."}
	}
	c.cfg.Door.EndSession(c.w, c.request, c.principal, in.All)
	return none{}, nil
}

// isFailedSignIn reports whether a refusal is of a sign-in with a wrong id or secret.
func isFailedSignIn(r *http.Request, code string) bool {
	return auth.IsSignIn(r) && code == "SignInFailed"
}

func (c *call) hasSession() bool {
	_, ok := c.principal.Session()
	return ok
}
