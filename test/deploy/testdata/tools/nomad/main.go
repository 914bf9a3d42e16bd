// Command nomad reads a job file of Nomad, sets its variables, and prints the job in the form of
// Nomad's API. Nomad's own parser of job files is not open source, so this command has one: the
// grammar is HashiCorp's HCL, and it knows only the blocks and attributes that the tags of Nomad's
// API name. It reports what Nomad refuses: unknown and repeated names, values of a wrong type,
// missing labels, and references to a port or a volume that the group does not have.
//
//	nomad FILE NAME=VALUE...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

func main() {
	job, err := read(os.Args[1], os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A file is what may stand at the top of a job file here. Local values and functions may not.
type file struct {
	Variables map[string]*variable `hcl:"variable,block"`
	Job       *api.Job             `hcl:"job,block"`
}

type variable struct {
	Type        string `hcl:"type"`
	Description string `hcl:"description,optional"`
}

// docker has the settings of the driver of that name that a job here may use, as its documentation
// lists them.
type docker struct {
	Image      string   `hcl:"image"`
	Args       []string `hcl:"args,optional"`
	Command    string   `hcl:"command,optional"`
	Entrypoint []string `hcl:"entrypoint,optional"`
	Ports      []string `hcl:"ports,optional"`
	ReadOnly   bool     `hcl:"readonly_rootfs,optional"`
	CapDrop    []string `hcl:"cap_drop,optional"`
	Security   []string `hcl:"security_opt,optional"`
	ForcePull  bool     `hcl:"force_pull,optional"`
	Hostname   string   `hcl:"hostname,optional"`
	PidsLimit  int      `hcl:"pids_limit,optional"`
}

func read(name string, values []string) (*api.Job, error) {
	parsed, problems := hclparse.NewParser().ParseHCLFile(name)
	if problems.HasErrors() {
		return nil, problems
	}
	d := &decoder{given: make(map[string]cty.Value)}
	for _, v := range values {
		name, value, _ := strings.Cut(v, "=")
		d.given[name] = cty.StringVal(value)
	}
	var f file
	body := parsed.Body.(*hclsyntax.Body)
	for _, b := range body.Blocks { // the types of variables are words and not values
		if a := b.Body.Attributes["type"]; b.Type == "variable" && a != nil {
			if word := hcl.ExprAsKeyword(a.Expr); word != "string" {
				d.problem(a.SrcRange, "variables here are strings, not %q", word)
			}
			a.Expr = &hclsyntax.LiteralValueExpr{Val: cty.StringVal("string")}
		}
	}
	d.body(body, reflect.ValueOf(&f).Elem())
	for name := range d.given {
		if f.Variables[name] == nil {
			d.problem(body.SrcRange, "no variable is called %s", name)
		}
	}
	if f.Job == nil {
		d.problem(body.SrcRange, "there is no job")
	} else {
		for _, g := range f.Job.TaskGroups {
			d.group(g, body.SrcRange)
		}
	}
	return f.Job, errors.Join(d.problems...)
}

type decoder struct {
	given    map[string]cty.Value
	problems []error
}

func (d *decoder) problem(at hcl.Range, format string, args ...any) {
	d.problems = append(d.problems, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// field finds a field by the tag of its struct: the attributes and blocks of a body.
func field(to reflect.Value, name string, kinds ...string) (reflect.Value, bool) {
	for i := range to.NumField() {
		tag, kind, _ := strings.Cut(to.Type().Field(i).Tag.Get("hcl"), ",")
		if tag == name && tag != "" && slices.Contains(kinds, kind) {
			return to.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// body reads a body into a struct.
func (d *decoder) body(b *hclsyntax.Body, to reflect.Value) {
	for name, a := range b.Attributes {
		f, ok := field(to, name, "", "optional")
		if !ok {
			d.problem(a.NameRange, "%s has no attribute %s", to.Type(), name)
			continue
		}
		d.attribute(a, f)
	}
	seen := make(map[string]bool)
	for _, block := range b.Blocks {
		f, ok := field(to, block.Type, "block")
		if !ok {
			d.problem(block.TypeRange, "%s has no block %s", to.Type(), block.Type)
			continue
		}
		labelled := f.Kind() == reflect.Map && f.Type().Elem().Kind() == reflect.Pointer
		if seen[block.Type] && f.Kind() != reflect.Slice && !labelled {
			d.problem(block.TypeRange, "a second block %s", block.Type)
		}
		seen[block.Type] = true
		d.block(block, f)
	}
	for i := range to.NumField() {
		tag, kind, _ := strings.Cut(to.Type().Field(i).Tag.Get("hcl"), ",")
		if tag != "" && kind == "" && b.Attributes[tag] == nil {
			d.problem(b.SrcRange, "%s lacks %s", to.Type(), tag)
		}
	}
}

// block reads a block into a field: a struct, one more of a list or a map, or a map of attributes.
func (d *decoder) block(b *hclsyntax.Block, to reflect.Value) {
	switch kind := to.Type(); kind.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(kind.Elem()))
		d.labelled(b, to.Elem())
	case reflect.Slice:
		element := kind.Elem()
		if element.Kind() == reflect.Pointer {
			element = element.Elem()
		}
		value := reflect.New(element)
		d.labelled(b, value.Elem())
		if kind.Elem().Kind() != reflect.Pointer {
			value = value.Elem()
		}
		to.Set(reflect.Append(to, value))
	case reflect.Map:
		if to.IsNil() {
			to.Set(reflect.MakeMap(kind))
		}
		if kind.Elem().Kind() == reflect.Pointer {
			if len(b.Labels) != 1 {
				d.problem(b.TypeRange, "%s needs one label", b.Type)
				return
			}
			key := reflect.ValueOf(b.Labels[0])
			if to.MapIndex(key).IsValid() {
				d.problem(b.TypeRange, "a second %s is called %s", b.Type, b.Labels[0])
			}
			value := reflect.New(kind.Elem().Elem())
			d.labelled(b, value.Elem())
			to.SetMapIndex(key, value)
			return
		}
		if b.Type == "config" {
			d.docker(b, to)
			return
		}
		for name, a := range b.Body.Attributes {
			value := reflect.New(kind.Elem()).Elem()
			d.attribute(a, value)
			to.SetMapIndex(reflect.ValueOf(name), value)
		}
		for _, inner := range b.Body.Blocks {
			d.problem(inner.TypeRange, "%s has attributes only", b.Type)
		}
	default:
		d.problem(b.TypeRange, "%s is no block", b.Type)
	}
}

// labelled reads a block into a struct whose label, if it has one, is a field. The label of a job
// is its id.
func (d *decoder) labelled(b *hclsyntax.Block, to reflect.Value) {
	wanted := b.Type == "variable" || b.Type == "job" || b.Type == "volume"
	for i := range to.NumField() {
		_, kind, _ := strings.Cut(to.Type().Field(i).Tag.Get("hcl"), ",")
		if f := to.Field(i); kind == "label" {
			wanted = true
			if f.Kind() == reflect.Pointer {
				f.Set(reflect.New(f.Type().Elem()))
				f = f.Elem()
			}
			if len(b.Labels) == 1 {
				f.SetString(b.Labels[0])
			}
		}
	}
	if wanted != (len(b.Labels) == 1) || len(b.Labels) > 1 {
		d.problem(b.TypeRange, "%s has %d labels", b.Type, len(b.Labels))
	}
	if job, ok := to.Addr().Interface().(*api.Job); ok && len(b.Labels) == 1 {
		job.ID, job.Name = &b.Labels[0], &b.Labels[0]
	}
	d.body(b.Body, to)
}

// docker reads the settings of a driver.
func (d *decoder) docker(b *hclsyntax.Block, to reflect.Value) {
	var c docker
	d.body(b.Body, reflect.ValueOf(&c).Elem())
	for name := range b.Body.Attributes {
		if f, ok := field(reflect.ValueOf(c), name, "", "optional"); ok {
			to.SetMapIndex(reflect.ValueOf(name), f)
		}
	}
}

// attribute evaluates an attribute into a field. What Nomad fills in where a task runs, such as
// ${NOMAD_SECRETS_DIR}, stays as it is.
func (d *decoder) attribute(a *hclsyntax.Attribute, to reflect.Value) {
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(d.given)}}
	for _, v := range a.Expr.Variables() {
		if name := v.RootName(); strings.HasPrefix(name, "NOMAD_") && len(v) == 1 {
			scope.Variables[name] = cty.StringVal("${" + name + "}")
		}
	}
	value, problems := a.Expr.Value(scope)
	if problems.HasErrors() {
		d.problems = append(d.problems, problems)
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if !set(value, to) {
		d.problem(a.SrcRange, "%s is %s, which is no %s", a.Name, value.Type().FriendlyName(), to.Type())
	}
}

// set converts a value as Nomad does: numbers and strings stand for each other.
func set(value cty.Value, to reflect.Value) bool {
	if value.IsNull() || !value.IsWhollyKnown() {
		return false
	}
	if to.Kind() == reflect.Slice {
		if !value.CanIterateElements() || value.Type().IsObjectType() || value.Type().IsMapType() {
			return false
		}
		for _, v := range value.AsValueSlice() {
			element := reflect.New(to.Type().Elem()).Elem()
			if !set(v, element) {
				return false
			}
			to.Set(reflect.Append(to, element))
		}
		return true
	}
	text, err := convert.Convert(value, cty.String)
	if err != nil {
		return false
	}
	if to.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text.AsString())
		to.SetInt(int64(d))
		return err == nil
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text.AsString())
		return true
	case reflect.Bool:
		b, err := convert.Convert(value, cty.Bool)
		if err == nil {
			to.SetBool(b.True())
		}
		return err == nil
	case reflect.Int, reflect.Int8, reflect.Int64:
		n, err := convert.Convert(value, cty.Number)
		if err != nil || !n.AsBigFloat().IsInt() {
			return false
		}
		i, _ := n.AsBigFloat().Int64()
		to.SetInt(i)
		return !to.OverflowInt(i)
	}
	return false
}

// group reports references of a group that lead nowhere.
func (d *decoder) group(g *api.TaskGroup, at hcl.Range) {
	ports := make(map[string]bool)
	for _, n := range g.Networks {
		for _, p := range n.DynamicPorts { // in a job file, static ones are too
			ports[p.Label] = true
		}
	}
	port := func(of, label string) {
		if label != "" && !ports[label] {
			d.problem(at, "%s: the group has no port %q", of, label)
		}
	}
	services := g.Services
	for _, t := range g.Tasks {
		services = append(services, t.Services...)
		for _, m := range t.VolumeMounts {
			if m.Volume == nil || g.Volumes[*m.Volume] == nil {
				d.problem(at, "%s: a mount of a volume that the group has not", t.Name)
			}
		}
		if listed, ok := t.Config["ports"].([]string); ok {
			for _, label := range listed {
				port(t.Name, label)
			}
		}
		if t.Driver != "docker" {
			d.problem(at, "%s: the settings of the driver %q are not known here", t.Name, t.Driver)
		}
	}
	for _, s := range services {
		port(s.Name, s.PortLabel)
		for _, c := range s.Checks {
			port(s.Name+", "+c.Name, c.PortLabel)
			if s.Provider == "nomad" && c.Type != "http" && c.Type != "tcp" {
				d.problem(at, "%s, %s: Nomad itself has no checks of the type %q", s.Name, c.Name, c.Type)
			}
		}
	}
}
