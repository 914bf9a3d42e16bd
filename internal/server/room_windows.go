package server

import "errors"

func roomOn(string) (room, error) { return room{}, errors.ErrUnsupported }
