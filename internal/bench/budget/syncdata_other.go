//go:build !linux

package budget

import "os"

func syncData(f *os.File) error { return f.Sync() }
