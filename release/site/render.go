package main

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// markdown is what the usual hosts of repositories show. HTML is kept: the sources are our own.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(html.WithUnsafe()))

// render returns the HTML of a page, its title, and its parts for the search.
func (s *site) render(name string, source []byte) (
	body template.HTML, title string, entries []entry, err error,
) {
	names := &anchors{seen: make(map[string]int)}
	doc := markdown.Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(names))))
	part := entry{}
	end := func() {
		if part.Heading != "" {
			part.Text = strings.Join(strings.Fields(part.Text), " ")
			entries = append(entries, part)
		}
	}
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			heading := plain(n, source)
			if title == "" {
				title = heading
			}
			id := names.name(heading)
			n.SetAttributeString("id", []byte(id))
			end()
			part = entry{Page: title, Heading: heading, Address: address(name) + "#" + id}
		case *ast.Link:
			to, err := s.follow(name, string(n.Destination))
			n.Destination = []byte(to)
			return ast.WalkContinue, err
		case *ast.Image:
			to, err := s.follow(name, string(n.Destination))
			n.Destination = []byte(to)
			return ast.WalkContinue, err
		case *ast.Text:
			part.Text += string(n.Segment.Value(source)) + " "
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			part.Text += string(n.Lines().Value(source)) + " "
		case *ast.RawHTML:
			if n.Segments.Len() > 0 {
				s.copyImages(name, string(n.Segments.Value(source)))
			}
		case *ast.HTMLBlock:
			s.copyImages(name, string(n.Lines().Value(source)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", "", nil, err
	}
	end()
	var b bytes.Buffer
	err = markdown.Renderer().Render(&b, source, doc)
	return template.HTML(b.String()), title, entries, err
}

// follow returns where a link of a page leads on the site. A folder, which is no page, leads
// nowhere.
func (s *site) follow(from, to string) (string, error) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") ||
		strings.HasPrefix(to, "mailto:") {
		return to, nil
	}
	file, anchor, found := strings.Cut(to, "#")
	name := path.Join(path.Dir(from), file)
	info, err := fs.Stat(s.sources, name)
	if err != nil {
		return "", fmt.Errorf("the link %s: %w", to, err)
	}
	root := strings.Repeat("../", strings.Count(from, "/"))
	switch {
	case info.IsDir():
		return "#", nil
	case strings.HasSuffix(name, ".md"):
		file = root + address(name)
	default:
		file = root + name
		s.copies[name] = true
	}
	if found {
		file += "#" + anchor
	}
	return file, nil
}

// copyImages notes the files of images that a page has as HTML.
func (s *site) copyImages(from, html string) {
	for rest := html; ; {
		_, after, ok := strings.Cut(rest, `src="`)
		if !ok {
			return
		}
		file, more, _ := strings.Cut(after, `"`)
		if name := path.Join(path.Dir(from), file); !strings.Contains(file, "://") {
			s.copies[name] = true
		}
		rest = more
	}
}

// plain is the text of a heading.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchors makes the names of headings as the usual hosts of repositories do, so that links work
// here and there.
type anchors struct{ seen map[string]int }

func (a *anchors) name(heading string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	n := a.seen[name]
	if a.seen[name]++; n > 0 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// Generate and Put are for headings whose name is given elsewhere: here, none.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte { return value }
func (a *anchors) Put([]byte)                                   {}
