package v1

import "time"

// A KeyList is the answer to GET /v1/keys. [V1-23]
type KeyList struct {
	Open  bool        `json:"open" doc:"the server has no keys, so requests need not be signed"`
	Since time.Time   `json:"since" doc:"since when uses are known"`
	Keys  []AccessKey `json:"keys" doc:"by account, user and id"`
}

// An AccessKey is what may be shown of a key: never its secret, its session token or a hash of one.
type AccessKey struct {
	ID      string     `json:"id"`
	User    string     `json:"user" doc:"name of the key's user"`
	Account string     `json:"account"`
	Allow   []string   `json:"allow" doc:"patterns of actions, as the credentials file has them"`
	Expires *time.Time `json:"expires,omitempty" doc:"absent for a key that does not expire"`
	Expired bool       `json:"expired" doc:"by the clock of the server"`
	LastUse *time.Time `json:"lastUse,omitempty" doc:"the latest request with the key, to the second; absent if there was none"`
}

// keys answers GET /v1/keys.
func (c *call) keys(none) (KeyList, error) {
	now := time.Now()
	list := KeyList{Open: !c.principal.Signed(), Since: c.since, Keys: []AccessKey{}}
	for _, k := range c.cfg.Door.Keys() {
		shown := AccessKey{ID: k.ID, User: k.Name, Account: k.Account, Allow: k.Rights}
		if !k.Expires.IsZero() {
			shown.Expires, shown.Expired = new(k.Expires.UTC()), !now.Before(k.Expires)
		}
		if used := k.LastUse(); !used.IsZero() {
			shown.LastUse = &used
		}
		list.Keys = append(list.Keys, shown)
	}
	return list, nil
}
