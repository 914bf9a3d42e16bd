package cloudwatch

import "time"

// The structures of requests and answers about metrics, like those about alarms. Lists that the
// model does not limit have the limits that CloudWatch documents.

type dimension struct {
	Name  string `cw:"required,min=1,max=255"`
	Value string `cw:"required,min=1,max=1024"`
}

type metric struct {
	Namespace  string      `cw:"min=1,max=255"`
	MetricName string      `cw:"min=1,max=255"`
	Dimensions []dimension `cw:"max=30"`
}

type metricDataQuery struct {
	Id         string      `cw:"required,min=1,max=255"`
	MetricStat *metricStat // either this or Expression
	Expression string      `cw:"min=1,max=2048"`
	Label      string
	ReturnData *bool  // true when absent
	Period     *int64 `cw:"min=1"`
	AccountId  string `cw:"min=1,max=255"`
}

type metricStat struct {
	Metric metric `cw:"required"`
	Period int64  `cw:"required,min=1"`
	Stat   string `cw:"required"`
	Unit   string `cw:"enum=StandardUnit"`
}

type putMetricDataInput struct {
	Namespace              string        `cw:"required,min=1,max=255"`
	MetricData             []metricDatum `cw:"max=1000"`
	EntityMetricData       given         `refuse:"entities are not kept; use MetricData"`
	StrictEntityValidation given         // of what is refused anyway
}

type metricDatum struct {
	MetricName string      `cw:"required,min=1,max=255"`
	Dimensions []dimension `cw:"max=30"`
	Timestamp  *time.Time  // now when absent

	// One of them.
	Value           *float64
	StatisticValues *statisticSet
	Values          []float64 `cw:"max=150"`
	Counts          []float64 `cw:"max=150"` // of Values; one each when absent

	Unit              string `cw:"enum=StandardUnit"`
	StorageResolution *int64 `cw:"min=1"`
}

type statisticSet struct {
	SampleCount float64 `cw:"required"`
	Sum         float64 `cw:"required"`
	Minimum     float64 `cw:"required"`
	Maximum     float64 `cw:"required"`
}

type getMetricDataInput struct {
	MetricDataQueries []metricDataQuery `cw:"required,max=500"`
	StartTime         time.Time         `cw:"required"`
	EndTime           time.Time         `cw:"required"`
	NextToken         string
	ScanBy            string `cw:"enum=ScanBy"` // the newest first when absent
	MaxDatapoints     *int64
	LabelOptions      given // of times in labels, which there are none
}

type getMetricDataOutput struct {
	MetricDataResults []metricDataResult
	NextToken         string
	Messages          []messageData
}

type metricDataResult struct {
	Id         string
	Label      string
	Timestamps []time.Time
	Values     []float64
	StatusCode string
	Messages   []messageData
}

type messageData struct{ Code, Value string }

type getMetricStatisticsInput struct {
	Namespace  string      `cw:"required,min=1,max=255"`
	MetricName string      `cw:"required,min=1,max=255"`
	Dimensions []dimension `cw:"max=30"`
	StartTime  time.Time   `cw:"required"`
	EndTime    time.Time   `cw:"required"`
	Period     int64       `cw:"required,min=1"`
	Statistics []string    `cw:"min=1,max=5" each:"enum=Statistic"`
	Unit       string      `cw:"enum=StandardUnit"`

	ExtendedStatistics given `refuse:"of a minute its smallest and largest value, sum and count are kept, and no percentiles; use Statistics"`
}

type getMetricStatisticsOutput struct {
	Label      string
	Datapoints []datapoint
}

type datapoint struct {
	Timestamp   time.Time
	SampleCount *float64
	Average     *float64
	Sum         *float64
	Minimum     *float64
	Maximum     *float64
	Unit        string
}

type listMetricsInput struct {
	Namespace             string            `cw:"min=1,max=255"`
	MetricName            string            `cw:"min=1,max=255"`
	Dimensions            []dimensionFilter `cw:"max=10"`
	NextToken             string
	RecentlyActive        string `cw:"enum=RecentlyActive"`
	IncludeLinkedAccounts bool   // no account is linked
	OwningAccount         string `cw:"min=1,max=255"`
}

type dimensionFilter struct {
	Name  string `cw:"required,min=1,max=255"`
	Value string `cw:"min=1,max=1024"`
}

type listMetricsOutput struct {
	Metrics        []metric
	NextToken      string
	OwningAccounts []string
}
