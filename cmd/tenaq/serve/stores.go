package serve

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/settings"
	"tenaq/records"
)

// claimStores opens the stores of records that the configuration file names, for the claims in
// them. It opens each when it is first used, and keeps it open.
type claimStores struct {
	list []settings.ClaimStore

	mu   sync.Mutex
	open map[string]*cli.RecordStore
}

func (s *claimStores) Stores() (shown []v1.ClaimStore) {
	for i := range s.list {
		address := s.list[i].RecordsAddress()
		shown = append(shown, v1.ClaimStore{Name: s.list[i].Name, Records: address,
			ReadsAll: strings.HasPrefix(address, "dynamodb:")})
	}
	return shown
}

func (s *claimStores) opened(name string) *cli.RecordStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name]
}

func (s *claimStores) Open(ctx context.Context, name string) (records.Store, error) {
	if store := s.opened(name); store != nil {
		return store, nil
	}
	for i := range s.list {
		if s.list[i].Name != name {
			continue
		}
		// Not under the mutex, because a store that is away takes seconds.
		store, err := s.list[i].Records.OpenExisting(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if first := s.open[name]; first != nil {
			_ = store.Close()
			return first, nil
		}
		s.open[name] = store
		return store, nil
	}
	return nil, fmt.Errorf("claims: in the configuration names no store %q", name)
}

// Explain says where the store is that returned an error, and what to do.
func (s *claimStores) Explain(name string, err error) error {
	store := s.opened(name)
	if store == nil {
		return err // which says it
	}
	if place, ok := store.Place.(interface {
		Explain(doing string, err error) error
	}); ok {
		return place.Explain("use the claims", err)
	}
	return fmt.Errorf("%w (in %s)", err, store.Place)
}

func (s *claimStores) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, store := range s.open {
		_ = store.Close()
	}
}
