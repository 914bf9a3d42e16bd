package metric

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"
)

// ContentType is the content type of the text format of Prometheus.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// A Kind is the kind of a family.
type Kind string

const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindHistogram Kind = "histogram"
)

// A Family describes a metric.
type Family struct {
	Name   string
	Help   string // one sentence, without a dot at the end
	Kind   Kind
	Labels []string
}

// A Writer writes families, one after the other. Errors are kept until Flush.
type Writer struct {
	w      *bufio.Writer
	family Family
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 32<<10)} }

// Begin starts a family. Its values must follow before the next Begin.
func (w *Writer) Begin(f Family) {
	w.family = f
	w.w.WriteString("# HELP " + f.Name + " " + helpEscaper.Replace(f.Help) + "\n# TYPE " + f.Name +
		" " + string(f.Kind) + "\n")
}

// Value writes a counter or a gauge, with the values of the labels of its family.
func (w *Writer) Value(v float64, labels ...string) { w.line("", v, labels, "", "") }

// Histogram writes a histogram.
func (w *Writer) Histogram(h *Histogram, labels ...string) {
	total := int64(0)
	for i := range h.counts {
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = number(h.bounds[i])
		}
		total += h.counts[i].Load()
		w.line("_bucket", float64(total), labels, "le", bound)
	}
	w.line("_sum", math.Float64frombits(h.sum.Load()), labels, "", "")
	w.line("_count", float64(total), labels, "", "")
}

// Flush writes the rest and returns the first error.
func (w *Writer) Flush() error { return w.w.Flush() }

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// line writes a value with its labels, and with one more label if more is not empty.
func (w *Writer) line(suffix string, v float64, labels []string, more, value string) {
	w.w.WriteString(w.family.Name)
	w.w.WriteString(suffix)
	sep := byte('{')
	label := func(name, value string) {
		w.w.WriteByte(sep)
		sep = ','
		w.w.WriteString(name)
		w.w.WriteString(`="`)
		labelEscaper.WriteString(w.w, value)
		w.w.WriteByte('"')
	}
	for i, name := range w.family.Labels {
		label(name, labels[i])
	}
	if more != "" {
		label(more, value)
	}
	if sep == ',' {
		w.w.WriteByte('}')
	}
	w.w.WriteByte(' ')
	w.w.WriteString(number(v))
	w.w.WriteByte('\n')
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
