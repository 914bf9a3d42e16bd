package cloudwatch

import (
	"reflect"
	"slices"

	"tenaq/internal/api/wire"
)

// An operation is an action of CloudWatch that this server offers.
type operation struct {
	name string
	fit  fit
	// of the structs for its input and output; the output is nil for an operation without one
	in   reflect.Type
	out  reflect.Type
	call func(c *call, in any) (any, error)
}

func (op *operation) serve(c *call, from wire.Value) (any, error) {
	in := reflect.New(op.in)
	if err := (binder{op.fit}).structure(in.Elem(), from, ""); err != nil {
		return nil, err
	}
	return op.call(c, in.Interface())
}

// operations are the actions that this server offers, by name.
var operations map[string]*operation

func init() {
	operations = make(map[string]*operation)
	for _, op := range []*operation{
		void("PutMetricAlarm", onlyGeneral, (*call).putMetricAlarm),
		result("DescribeAlarms", onlyGeneral, (*call).describeAlarms),
		result("DescribeAlarmsForMetric", onlyGeneral, (*call).describeAlarmsForMetric),
		result("DescribeAlarmHistory", onlyGeneral, (*call).describeAlarmHistory),
		void("DeleteAlarms", onlyGeneral, (*call).deleteAlarms),
		void("SetAlarmState", onlyGeneral, (*call).setAlarmState),
		void("EnableAlarmActions", onlyGeneral, (*call).enableAlarmActions),
		void("DisableAlarmActions", onlyGeneral, (*call).disableAlarmActions),
		result("TagResource", namesValue, (*call).tagResource),
		result("UntagResource", namesValue, (*call).untagResource),
		result("ListTagsForResource", namesValue, (*call).listTagsForResource),
		void("PutMetricData", namesEveryOne, (*call).putMetricData),
		result("GetMetricStatistics", namesEveryOne, (*call).getMetricStatistics),
		result("GetMetricData", onlyGeneral, (*call).getMetricData),
		result("ListMetrics", namesValue, (*call).listMetrics),
	} {
		operations[op.name] = op
	}
}

// Actions are what a key may be allowed to do here, such as cloudwatch:PutMetricAlarm.
func Actions() []string {
	var actions []string
	for name := range operations {
		actions = append(actions, "cloudwatch:"+name)
	}
	slices.Sort(actions)
	return actions
}

// void is an operation without output.
func void[In any](name string, f fit, do func(*call, *In) error) *operation {
	return &operation{name: name, fit: f, in: reflect.TypeFor[In](),
		call: func(c *call, in any) (any, error) { return nil, do(c, in.(*In)) }}
}

// result is an operation with output.
func result[In, Out any](name string, f fit, do func(*call, *In) (*Out, error)) *operation {
	return &operation{name: name, fit: f, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		call: func(c *call, in any) (any, error) {
			out, err := do(c, in.(*In))
			if err != nil {
				return nil, err
			}
			return out, nil
		}}
}
