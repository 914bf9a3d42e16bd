package cloudwatch

import (
	"time"

	"tenaq/internal/observe/alarm"
)

// The structures of requests and answers about alarms. The names of fields are those of members in
// the model of CloudWatch, and so are the limits in the tags: see field.

type putMetricAlarmInput struct {
	AlarmName               string   `cw:"required,min=1,max=255"`
	AlarmDescription        string   `cw:"max=1024"`
	ActionsEnabled          *bool    // true when absent
	OKActions               []string `cw:"max=5" each:"min=1,max=1024"`
	AlarmActions            []string `cw:"max=5" each:"min=1,max=1024"`
	InsufficientDataActions []string `cw:"max=5" each:"min=1,max=1024"`

	// Either a metric, or Metrics.
	MetricName string      `cw:"min=1,max=255"`
	Namespace  string      `cw:"min=1,max=255"`
	Statistic  string      `cw:"enum=Statistic"`
	Dimensions []dimension `cw:"max=30"`
	Period     *int64      `cw:"min=1"`
	Unit       string      `cw:"enum=StandardUnit"`

	Metrics []metricDataQuery `cw:"max=100"`

	EvaluationPeriods  *int64 `cw:"min=1"`
	DatapointsToAlarm  *int64 `cw:"min=1"`
	Threshold          *float64
	ComparisonOperator string `cw:"enum=ComparisonOperator"`
	TreatMissingData   string `cw:"min=1,max=255"`
	Tags               []tag  `cw:"max=50"`

	ExtendedStatistic                given `refuse:"of a minute its smallest and largest value, sum and count are kept, and no percentiles; use Statistic"`
	EvaluateLowSampleCountPercentile given `refuse:"it is for percentiles, which are not kept; leave it out"`
	ThresholdMetricId                given `refuse:"there is no anomaly detection; use Threshold"`
	EvaluationWindow                 given `refuse:"windows slide by a minute; use Period and EvaluationPeriods"`
	WarmUpConfiguration              given `refuse:"an alarm is evaluated from its first minutes on; use TreatMissingData"`
	EvaluationCriteria               given `refuse:"there is no PromQL; use MetricName or Metrics"`
	EvaluationInterval               given `refuse:"it is for PromQL; alarms are evaluated every minute"`
	ActionConfiguration              given `refuse:"notices have no tags; leave it out"`
}

type metricAlarm struct {
	AlarmName                          string
	AlarmArn                           string
	AlarmDescription                   string
	AlarmConfigurationUpdatedTimestamp time.Time
	ActionsEnabled                     bool
	OKActions                          []string
	AlarmActions                       []string
	InsufficientDataActions            []string
	StateValue                         string
	StateReason                        string
	StateReasonData                    string
	StateUpdatedTimestamp              time.Time
	MetricName                         string
	Namespace                          string
	Statistic                          string
	Dimensions                         []dimension
	Period                             *int64
	Unit                               string
	EvaluationPeriods                  int64
	DatapointsToAlarm                  *int64
	Threshold                          float64
	ComparisonOperator                 string
	TreatMissingData                   string
	Metrics                            []metricDataQuery
	StateTransitionedTimestamp         time.Time
}

type describeAlarmsInput struct {
	AlarmNames      []string `cw:"max=100" each:"min=1,max=255"`
	AlarmNamePrefix string   `cw:"min=1,max=255"`
	// metric alarms when absent; there are no others
	AlarmTypes   []string `cw:"max=10" each:"enum=AlarmType"`
	StateValue   string   `cw:"enum=StateValue"`
	ActionPrefix string   `cw:"min=1,max=1024"`
	MaxRecords   *int64   `cw:"min=1,max=100"`
	NextToken    string

	ChildrenOfAlarmName given `refuse:"there are no composite alarms; leave it out"`
	ParentsOfAlarmName  given `refuse:"there are no composite alarms; leave it out"`
}

type describeAlarmsOutput struct {
	CompositeAlarms []struct{}
	MetricAlarms    []metricAlarm
	LogAlarms       []struct{}
	NextToken       string
}

type describeAlarmsForMetricInput struct {
	MetricName string      `cw:"required,min=1,max=255"`
	Namespace  string      `cw:"required,min=1,max=255"`
	Statistic  string      `cw:"enum=Statistic"`
	Dimensions []dimension `cw:"max=30"`
	Period     *int64      `cw:"min=1"`
	Unit       string      `cw:"enum=StandardUnit"`

	ExtendedStatistic given `refuse:"there are no alarms on percentiles; use Statistic"`
}

type describeAlarmsForMetricOutput struct{ MetricAlarms []metricAlarm }

type describeAlarmHistoryInput struct {
	AlarmName       string   `cw:"min=1,max=255"`
	AlarmTypes      []string `cw:"max=10" each:"enum=AlarmType"`
	HistoryItemType string   `cw:"enum=HistoryItemType"`
	StartDate       *time.Time
	EndDate         *time.Time
	MaxRecords      *int64 `cw:"min=1,max=100"`
	NextToken       string
	ScanBy          string `cw:"enum=ScanBy"` // the newest first when absent

	AlarmContributorId given `refuse:"alarms have no contributors; leave it out"`
}

type describeAlarmHistoryOutput struct {
	AlarmHistoryItems []alarmHistoryItem
	NextToken         string
}

type alarmHistoryItem struct {
	AlarmName       string
	AlarmType       string
	Timestamp       time.Time
	HistoryItemType string
	HistorySummary  string
	HistoryData     string
}

// alarmNamesInput is that of the calls that only name alarms.
type alarmNamesInput struct {
	AlarmNames []string `cw:"required,max=100" each:"min=1,max=255"`
}

type setAlarmStateInput struct {
	AlarmName       string `cw:"required,min=1,max=255"`
	StateValue      string `cw:"required,enum=StateValue"`
	StateReason     string `cw:"required,max=1023"`
	StateReasonData string `cw:"max=4000"`
}

type tag struct {
	Key   string `cw:"required,min=1,max=128"`
	Value string `cw:"required,max=256"`
}

type tagResourceInput struct {
	ResourceARN string `cw:"required,min=1,max=1024"`
	Tags        []tag  `cw:"required,max=50"`
}

type untagResourceInput struct {
	ResourceARN string   `cw:"required,min=1,max=1024"`
	TagKeys     []string `cw:"required,max=50" each:"min=1,max=128"`
}

type listTagsForResourceInput struct {
	ResourceARN string `cw:"required,min=1,max=1024"`
}

type listTagsForResourceOutput struct{ Tags []tag }

// enums are the words that members may have.
var enums = map[string][]string{
	"AlarmType": {"CompositeAlarm", "MetricAlarm", "LogAlarm"},
	"ComparisonOperator": {"GreaterThanOrEqualToThreshold", "GreaterThanThreshold",
		"LessThanThreshold", "LessThanOrEqualToThreshold",
		"LessThanLowerOrGreaterThanUpperThreshold", "LessThanLowerThreshold",
		"GreaterThanUpperThreshold"},
	"HistoryItemType": {"ConfigurationUpdate", "StateUpdate", "Action",
		"AlarmContributorStateUpdate", "AlarmContributorAction"},
	"RecentlyActive": {"PT3H"},
	"ScanBy":         {"TimestampDescending", "TimestampAscending"},
	"StandardUnit":   alarm.UnitNames,
	"StateValue":     {"OK", "ALARM", "INSUFFICIENT_DATA"},
	"Statistic":      {"SampleCount", "Average", "Sum", "Minimum", "Maximum"},
}
