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

// features asks the server once what it offers to this redriver.
type features struct {
	server *v1client.Client // nil if it cannot be tenaq

	mu    sync.Mutex
	asked bool
	found offer
}

// An offer is what a server offers.
type offer struct {
	reasons bool // it keeps reasons
	moves   bool // it moves received messages in one step

	releases bool // it takes receives back
}

// has returns the offer. The server is asked until it has answered once.
func (f *features) has(ctx context.Context) offer {
	if f.server == nil {
		return offer{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.asked {
		var answer struct{ Features, Allowed []string }
		err := f.server.Get(ctx, "", nil, &answer)
		refused, ok := errors.AsType[*v1client.Error](err)
		f.asked = err == nil || errors.Is(err, v1client.ErrOther) || ok && !refused.Passing()
		nacks := slices.Contains(answer.Features, "nack")
		f.found = offer{
			reasons: nacks,
			moves: slices.Contains(answer.Features, "replace") &&
				slices.Contains(answer.Allowed, "tenaq:ReplaceMessage"),
			releases: nacks && slices.Contains(answer.Allowed, "tenaq:Nack"),
		}
	}
	return f.found
}

// attributes returns the system attributes to ask for. Other servers refuse names that they do not
// know.
func (f *features) attributes(ctx context.Context) []types.MessageSystemAttributeName {
	names := []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}
	if f.has(ctx).reasons {
		names = append(names, reasonAttribute, verdictAttribute)
	}
	return names
}
