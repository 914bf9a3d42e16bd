package server

import (
	"errors"
	"net/http"

	"tenaq/internal/api/sts"
	"tenaq/internal/door/auth"
)

// withSTS serves STS, behind the same door as everything else. [AUTH-49]
func (s *Server) withSTS(next http.Handler) http.Handler {
	identity := sts.New(sts.Config{Authenticate: s.letToSTS})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// With credentials, an unsigned request is refused by every API.
		if sts.Is(r) || s.cfg.Credentials == nil && sts.IsUnsigned(r) {
			identity.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// letToSTS accepts every key: a caller needs no right to ask for its own identity.
func (s *Server) letToSTS(r *http.Request) (sts.Finish, error) {
	pending, err := s.door.Authenticate(r, "sts")
	if err != nil {
		return nil, stsRefusal(err)
	}
	return func(body []byte) (sts.Identity, error) {
		principal, err := pending.Finish(body)
		if err != nil {
			return sts.Identity{}, stsRefusal(err)
		}
		return identityOf(principal), nil
	}, nil
}

func identityOf(p auth.Principal) sts.Identity {
	return sts.Identity{Account: p.Account(), ARN: p.ARN(), UserID: p.UserID()}
}

// stsRefusal turns a refusal of the door into one of STS.
func stsRefusal(err error) error {
	if refusal, ok := errors.AsType[*auth.Error](err); ok {
		return &sts.Error{Code: refusal.Code, Status: refusal.Status, Message: refusal.Message}
	}
	return err
}
