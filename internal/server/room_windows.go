package server

import "errors"

func roomOn(string) (int64, error) { return 0, errors.ErrUnsupported }
