package salvage

import (
	"bytes"

	"tenaq/internal/engine/row"
)

// versionMargin is how many versions of records are skipped, because the last writes may be lost.
// Versions are near the time in microseconds, so this is a second.
const versionMargin = 1_000_000

// isRecord reports whether a key is that of a record, or of the row about all records.
func isRecord(k []byte) bool {
	_, ok := row.RecordOf(k)
	return ok || bytes.Equal(k, row.RecordsKey())
}

// records keeps the records that can be read, and writes the index of those that expire. Versions
// continue after all that were ever given: the fence of a lost claim must not be given again.
func (s *salvage) records() {
	v, used := s.get(row.RecordsKey())
	all, _ := row.DecodeRecords(v)
	all.Swept = 0
	records := row.RecordSpan()
	for k, v := range s.store.Scan(records.Lo, records.Hi) {
		name, ok := row.RecordOf(k)
		r, known := row.DecodeRecord(v)
		if !ok || !known || r.Version == 0 || len(r.Value) > row.RecordValueMax ||
			r.Expires != 0 && r.Expires <= r.Written {
			s.delete(bytes.Clone(k))
			s.out.LostRecords++
			continue
		}
		s.past(r.Written)
		all.Last, used = max(all.Last, r.Version), true
		s.out.Records++
		if r.Expires != 0 {
			s.set(row.ExpiryKey(r.ExpiryAt(), name), []byte{row.Version})
		}
	}
	if used {
		all.Last = max(all.Last, uint64(s.sys.Stamp)*1000) + versionMargin
		s.set(row.RecordsKey(), all.Encode(nil))
	}
}
