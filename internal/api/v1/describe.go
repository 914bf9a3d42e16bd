package v1

import (
	"cmp"
	"slices"
	"time"

	"tenaq/internal/door/auth"
)

// apiVersion is the version of this API. Routes and members are added under the same version.
const apiVersion = "1"

// A description is the answer to GET /v1. [V1-1]
type description struct {
	Server   string    `json:"server" doc:"always tenaq"`
	Version  string    `json:"version" doc:"of the program"`
	API      string    `json:"api" doc:"version of this API"`
	Now      time.Time `json:"now" doc:"the clock of the server"`
	Caller   caller    `json:"caller"`
	Features []string  `json:"features" doc:"the parts of this API that the server has"`
	Allowed  []string  `json:"allowed" doc:"the actions that the key allows; the policy of a queue may deny some of them, or allow more"`
}

// A caller is who asks.
type caller struct {
	Account string     `json:"account"`
	ARN     string     `json:"arn"`
	Key     string     `json:"key,omitempty" doc:"id of the key; absent when the server has no keys"`
	User    string     `json:"user,omitempty" doc:"name of the key's user"`
	Expires *time.Time `json:"expires,omitempty" doc:"when the key ends"`
	Token   bool       `json:"token" doc:"whether a bearer token stands for the key"`
	Session bool       `json:"session" doc:"whether the session of a page stands for the key"`

	ProxyUser string `json:"proxyUser,omitempty" doc:"user of a proxy who acts as the key"`
}

// describe answers GET /v1.
func (c *call) describe(none) (description, error) {
	d := description{Server: "tenaq", Version: c.cfg.Version, API: apiVersion,
		Now: time.Now().UTC().Truncate(time.Millisecond),
		Caller: caller{Account: c.principal.Account(), ARN: c.principal.ARN(),
			Token: c.principal.Token(), Session: c.hasSession(),
			ProxyUser: c.principal.ProxyUser()},
		Features: []string{}, Allowed: []string{},
	}
	if id, user, expires, ok := c.principal.Key(); ok {
		d.Caller.Key, d.Caller.User = id, user
		if !expires.IsZero() {
			d.Caller.Expires = &expires
		}
	}
	for _, r := range routes {
		if c.has(r) {
			d.Features = append(d.Features, r.feature())
		}
	}
	slices.Sort(d.Features)
	d.Features = slices.Compact(d.Features)
	actions := c.cfg.Actions
	if actions == nil {
		actions = Actions()
	}
	for _, action := range actions {
		if c.principal.Allows(action) {
			d.Allowed = append(d.Allowed, action)
		}
	}
	slices.Sort(d.Allowed)
	return d, nil
}

type tokenIn struct {
	For string `json:"for,omitempty" doc:"duration such as 90m, at most 12h; 1h when absent"`
}

// A token is the answer to POST /v1/tokens.
type token struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// makeToken answers POST /v1/tokens. [V1-6]
func (c *call) makeToken(in tokenIn) (token, error) {
	life, err := time.ParseDuration(cmp.Or(in.For, auth.TokenUsual.String()))
	if err != nil || life < time.Second || life > auth.TokenMax {
		return token{}, errValue("for", in.For, "a duration from 1s to 12h, such as 90m")
	}
	text, expires, err := c.cfg.Door.NewToken(c.principal, life)
	return token{text, expires}, err
}
