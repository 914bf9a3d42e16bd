package cloudwatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/api/wire"
	"tenaq/internal/observe/monitor"
)

// tagsMax is how many tags an alarm may have.
const tagsMax = 50

func (c *call) tagResource(in *tagResourceInput) (*struct{}, error) {
	s, err := c.resource(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	set, err := c.tags(in.Tags)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(set)
	maps.Copy(all, s.Tags)
	if len(all) > tagsMax {
		return nil, c.op.fit.invalid("An alarm has at most %d tags, and this would make them %d: remove some with UntagResource.", tagsMax, len(all))
	}
	return &struct{}{}, c.missing(s.Name, c.cfg.Monitor.SetTags(s.Name, set, nil))
}

func (c *call) untagResource(in *untagResourceInput) (*struct{}, error) {
	s, err := c.resource(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &struct{}{}, c.missing(s.Name, c.cfg.Monitor.SetTags(s.Name, nil, in.TagKeys))
}

func (c *call) listTagsForResource(
	in *listTagsForResourceInput,
) (*listTagsForResourceOutput, error) {
	s, err := c.resource(in.ResourceARN)
	if err != nil {
		return nil, err
	}
	out := &listTagsForResourceOutput{Tags: []tag{}}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		out.Tags = append(out.Tags, tag{key, s.Tags[key]})
	}
	return out, nil
}

func (c *call) tags(in []tag) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	set := make(map[string]string, len(in))
	for _, t := range in {
		if _, twice := set[t.Key]; twice {
			return nil, c.op.fit.invalid("The tag %s is given twice.", wire.Quote(t.Key))
		}
		if len(t.Key) >= 4 && strings.EqualFold(t.Key[:4], "aws:") {
			return nil, c.op.fit.invalid("The tag %s is invalid: tags that begin with aws: are those of AWS.", wire.Quote(t.Key))
		}
		set[t.Key] = t.Value
	}
	return set, nil
}

func (c *call) alarmARN(name string) string {
	return fmt.Sprintf("arn:aws:cloudwatch:%s:%s:alarm:%s", c.cfg.Region, c.account(), name)
}

// resource returns the alarm that an ARN names.
func (c *call) resource(arn string) (*monitor.Status, error) {
	parts := strings.SplitN(arn, ":", 7)
	if len(parts) < 7 || parts[0] != "arn" || parts[2] != "cloudwatch" || parts[5] != "alarm" {
		return nil, c.op.fit.invalid("The value %s for parameter ResourceARN is invalid: only alarms have tags, such as %s.", wire.Quote(arn), c.alarmARN("NAME"))
	}
	if parts[3] == c.cfg.Region && parts[4] == c.account() {
		for _, s := range c.cfg.Monitor.Alarms() {
			if s.Name == parts[6] {
				return &s, nil
			}
		}
	}
	return nil, noResource(arn)
}

// missing refuses an alarm that was deleted meanwhile, as resource refuses one that does not exist.
func (c *call) missing(name string, err error) error {
	if errors.Is(err, monitor.ErrNotFound) {
		return noResource(c.alarmARN(name))
	}
	return err
}

func noResource(arn string) *Error {
	return &Error{ResourceNotFoundException, fmt.Sprintf("There is no alarm %s.", wire.Quote(arn))}
}
