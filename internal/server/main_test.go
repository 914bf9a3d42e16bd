package server

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	becomeFaultChild()
	goleak.VerifyTestMain(m)
}
