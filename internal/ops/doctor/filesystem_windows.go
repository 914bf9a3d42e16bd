package doctor

import "errors"

// statFileSystem fails: no server runs on Windows.
func statFileSystem(string) (fileSystem, error) { return fileSystem{}, errors.ErrUnsupported }

// lockHolder returns 0: no server runs on Windows.
func lockHolder(uintptr) int { return 0 }
