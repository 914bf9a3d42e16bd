package redrive

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/v1client"
)

// A tenaq server keeps what consumers said about a message when they gave it back. A redriver asks
// for it, because a dead letter that the queue moved by itself says nothing else of its failure.
// [NACK-16]
const (
	reasonAttribute  = "TenaqReason"
	verdictAttribute = "TenaqVerdict"
	poisonVerdict    = "poison"
)

// reasons knows whether the server keeps reasons.
type reasons struct {
	server *v1client.Client // nil if it cannot be tenaq

	mu    sync.Mutex
	asked bool
	kept  bool
}

// attributes returns the system attributes to ask for. Other servers refuse names that they do not
// know, so the server is asked for its features, until it has answered once.
func (r *reasons) attributes(ctx context.Context) []types.MessageSystemAttributeName {
	names := []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}
	if r.server == nil {
		return names
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		var answer struct{ Features []string }
		err := r.server.Get(ctx, "", nil, &answer)
		refused, ok := errors.AsType[*v1client.Error](err)
		r.asked = err == nil || errors.Is(err, v1client.ErrOther) || ok && !refused.Passing()
		r.kept = slices.Contains(answer.Features, "nack")
	}
	if r.kept {
		names = append(names, reasonAttribute, verdictAttribute)
	}
	return names
}
