package sigv4

import (
	"net/http"
	"net/url"
	"strings"
)

// parameters are what a request says about its signature, wherever it says it.
type parameters struct {
	presigned                                bool
	algorithm, credential, signed, signature string
	date, expires, token                     string
	dateHeader                               bool // date is from the header Date
}

// readParameters finds the parameters. They are in the Authorization header or in the query string,
// and never in both. [AUTH-12, AUTH-13, AUTH-32]
func readParameters(r *http.Request, query []pair) (parameters, error) {
	headers := r.Header["Authorization"]
	presigned := ""
	for _, p := range query {
		switch p.name {
		case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature":
			presigned = p.name
		}
	}
	switch {
	case presigned != "" && len(headers) > 0:
		return parameters{}, mismatch("Found both '%s' as a query-string param and 'Authorization' as HTTP header.", presigned)
	case presigned != "":
		return queryParameters(query)
	case len(headers) > 1:
		return parameters{}, incomplete("The Authorization header is in the request more than once.")
	case len(headers) == 0 || !strings.HasPrefix(headers[0], "AWS4-"):
		return parameters{}, &Error{MissingAuthenticationToken, http.StatusForbidden,
			"Request is missing Authentication Token"}
	}
	return headerParameters(r, headers[0])
}

// headerParameters reads Authorization: ALGORITHM Credential=..., SignedHeaders=..., Signature=...
func headerParameters(r *http.Request, header string) (p parameters, err error) {
	if len(header) > authorizationMax {
		return p, incomplete("The Authorization header is larger than %d bytes.", authorizationMax)
	}
	rest := ""
	p.algorithm, rest, _ = strings.Cut(header, " ")
	for part := range strings.SplitSeq(rest, ",") {
		if part = strings.Trim(part, " \t"); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		if !found {
			return p, incomplete("'%s' not a valid key=value pair (missing equal-sign) in Authorization header: '%s'.", part, header)
		}
		var into *string
		switch name {
		case "Credential":
			into = &p.credential
		case "SignedHeaders":
			into = &p.signed
		case "Signature":
			into = &p.signature
		}
		if into == nil || *into != "" {
			return p, incomplete("'%s' is not a parameter of the Authorization header, or there twice: '%s'.", name, header)
		}
		*into = value
	}
	p.date = r.Header.Get("X-Amz-Date")
	if p.date == "" {
		p.date = r.Header.Get("Date")
		p.dateHeader = true
	}
	var missing strings.Builder
	for _, part := range []struct{ name, value string }{
		{"Credential", p.credential}, {"Signature", p.signature}, {"SignedHeaders", p.signed},
	} {
		if part.value == "" {
			missing.WriteString("Authorization header requires '" + part.name + "' parameter. ")
		}
	}
	if p.date == "" {
		missing.WriteString("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
	}
	if missing.Len() > 0 {
		return p, incomplete("%sAuthorization=%s", missing.String(), header)
	}
	return p, nil
}

// queryParameters reads those of a presigned request.
func queryParameters(query []pair) (p parameters, err error) {
	p.presigned = true
	required := []struct {
		name string
		into *string
	}{
		{"X-Amz-Algorithm", &p.algorithm},
		{"X-Amz-Credential", &p.credential},
		{"X-Amz-Signature", &p.signature},
		{"X-Amz-SignedHeaders", &p.signed},
		{"X-Amz-Date", &p.date},
		{"X-Amz-Expires", &p.expires},
		{"X-Amz-Security-Token", &p.token},
	}
	seen := make(map[string]bool)
	for _, pair := range query {
		for _, param := range required {
			if pair.name != param.name {
				continue
			}
			if seen[pair.name] {
				return p, incomplete("The parameter '%s' is in the query string more than once.",
					pair.name)
			}
			seen[pair.name] = true
			*param.into = pair.value
		}
	}
	var missing strings.Builder
	for _, param := range required[:5] {
		if *param.into == "" {
			missing.WriteString("AWS query-string parameters must include '" + param.name + "'. ")
		}
	}
	if seen["X-Amz-Expires"] && p.expires == "" {
		missing.WriteString("AWS query-string parameters must include 'X-Amz-Expires'. ")
	}
	if missing.Len() > 0 {
		return p, incomplete("%sRe-examine the query-string parameters.", missing.String())
	}
	return p, nil
}

// A pair is one parameter of the query string, decoded.
type pair struct{ name, value string }

// parseQuery reads a query string as net/url does, so that a handler sees what was signed. What
// net/url would leave out is refused.
func parseQuery(raw string) ([]pair, error) {
	if raw == "" {
		return nil, nil
	}
	if n := strings.Count(raw, "&"); n >= parametersMax {
		return nil, incomplete("The query string has more than %d parameters.", parametersMax)
	}
	var pairs []pair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if err != nil || strings.Contains(part, ";") {
			return nil, incomplete("The query string cannot be decoded. Re-examine the query-string parameters.")
		}
		pairs = append(pairs, pair{name, value})
	}
	return pairs, nil
}
