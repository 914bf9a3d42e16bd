package settings

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/cli"
)

// A ClaimStore is a store of records, outside the server, whose claims the file lets people see and
// decide about.
type ClaimStore struct {
	Name    string
	Records cli.RecordsFlags
	Line    int
}

var storeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

func checkStoreName(name string) (string, error) {
	switch {
	case !storeName.MatchString(name):
		return "", errors.New("must have 1 to 80 letters, digits, hyphens and underscores")
	case name == cli.ServerRecords:
		return "", errors.New("this is the name of the records of this server, which are always shown; choose another one")
	}
	return name, nil
}

func checkOutside(address string) (string, error) {
	if address == cli.ServerRecords {
		return "", errors.New("the claims in the records of this server are always shown; remove the entry")
	}
	return checkRecords(address)
}

func (f *configFile) readStores(list pair) error {
	if isNull(list.value) {
		return nil
	}
	if list.value.Kind != yaml.SequenceNode {
		return f.at(list.line, "claims must be a list, each entry beginning with - name:")
	}
	for _, n := range list.value.Content {
		n = resolveAlias(n)
		s := ClaimStore{Line: n.Line}
		err := f.mapping(n, "an entry of claims", fields{
			"name":    setTo(&s.Name, parsed(f, checkStoreName)),
			"records": setTo(&s.Records.Address, parsed(f, checkOutside)),
		}, noHint)
		switch {
		case err != nil:
			return err
		case s.Name == "":
			return f.at(n.Line, "an entry of claims has no name: by which people know the store")
		case s.Records.Address == "":
			return f.at(n.Line, "the entry of %s has no records: address, such as postgres://USER@HOST/DATABASE", s.Name)
		}
		for _, other := range f.Stores {
			if other.Name == s.Name {
				return f.at(n.Line, "the store %s is named twice; the first is in line %d", s.Name,
					other.Line)
			}
		}
		f.Stores = append(f.Stores, s)
	}
	return nil
}

// RecordsAddress is where the store is, as --records takes it. A password is left out.
func (s *ClaimStore) RecordsAddress() string { return withoutPassword(s.Records.Address) }

// StoreNames lists the names of stores.
func StoreNames(stores []ClaimStore) (names []string) {
	for _, s := range stores {
		names = append(names, s.Name)
	}
	return names
}

// withoutPassword is an address as people may see it. It leaves other texts as they are.
func withoutPassword(address string) string {
	scheme, _, isURL := strings.Cut(address, "://")
	if !isURL || scheme == "sqlite" {
		return address
	}
	u, err := url.Parse(address)
	var query url.Values
	if err == nil {
		query, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil {
		return scheme + ":" // nothing is known of where its password ends
	}
	_, has := u.User.Password()
	if !has && !query.Has("password") && !query.Has("sslpassword") {
		return address
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query.Del("password")
	query.Del("sslpassword")
	u.RawQuery = query.Encode()
	return strings.NewReplacer("%7B", "{", "%7D", "}").Replace(u.String()) // of alarm-pages
}
