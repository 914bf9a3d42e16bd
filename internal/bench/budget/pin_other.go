//go:build !linux

package budget

import "errors"

func processors() ([]int, error) { return nil, errors.New("this needs Linux") }

func pin(string, []int) error { return errors.New("this needs Linux") }
