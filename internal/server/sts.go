package server

import (
	"errors"
	"net/http"

	"tenaq/internal/api/sts"
	"tenaq/internal/door/auth"
)

// withSTS answers who somebody is, behind the same door as everything else. [AUTH-49]
func (s *Server) withSTS(next http.Handler) http.Handler {
	identity := sts.New(sts.Config{Authenticate: s.letToSTS})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What is not signed is refused when there are credentials, wherever it goes.
		if sts.Is(r) || s.cfg.Credentials == nil && sts.IsUnsigned(r) {
			identity.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// letToSTS lets in every key: nobody needs a right to be told who they are.
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
