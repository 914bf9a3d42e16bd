package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// A request without the key of a condition, as IAM decides it: a positive operator does not hold, a
// negated one and ...IfExists do, ForAllValues does, and ForAnyValue does not, whatever the
// operator. What a statement makes of that does not depend on its effect, as long as some request
// may have the key.
func TestMissingKey(t *testing.T) {
	for operator, holds := range map[string]bool{
		"IpAddress": false, "NotIpAddress": true, "IpAddressIfExists": true, "NotIpAddressIfExists": true,
		"ForAllValues:IpAddress": true, "ForAllValues:NotIpAddress": true, "ForAllValues:IpAddressIfExists": true,
		"ForAnyValue:IpAddress": false, "ForAnyValue:NotIpAddress": false,
	} {
		for effect, applied := range map[string]Effect{"Allow": Allow, "Deny": Deny} {
			text := strings.Replace(one(fmt.Sprintf(`,"Condition":{%q:{"aws:SourceIp":"10.0.0.0/8"}}`, operator)), "Allow", effect, 1)
			p, err := Parse(text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			a, want := ask("sqs:SendMessage"), Silent
			a.SourceIP = netip.Addr{}
			if holds {
				want = applied
			}
			if got := p.Decide(a); got != want {
				t.Errorf("%s %s without the key: got %v, want %v", effect, operator, got, want)
			}
		}
	}
}

// Conditions on keys that no request here has are judged when a policy is set. An Allow that can
// only be narrower than in AWS and a Deny that can only be wider are accepted, the two others are
// refused. [AUTH-51]
func TestKeysThatAreNeverThere(t *testing.T) {
	absent := map[string][]struct {
		operator, value string
		holds           bool
	}{
		"aws:sourceVpce": {
			{"StringEquals", "vpce-1", false}, {"StringLike", "vpce-*", false}, {"StringEqualsIgnoreCase", "vpce-1", false},
			{"StringNotEquals", "vpce-1", true}, {"StringNotLike", "vpce-*", true}, {"StringEqualsIfExists", "vpce-1", true},
			{"StringNotEqualsIfExists", "vpce-1", true}, {"ForAllValues:StringEquals", "vpce-1", true}, {"ForAnyValue:StringEquals", "vpce-1", false},
			{"ForAnyValue:StringNotEquals", "vpce-1", false}, {"ForAllValues:StringNotEquals", "vpce-1", true}, {"Null", "true", true}, {"Null", "false", false},
		},
		"aws:SourceVpc":              {{"StringEquals", "vpc-1", false}, {"StringNotEquals", "vpc-1", true}},
		"aws:VpcSourceIp":            {{"IpAddress", "10.0.0.0/8", false}, {"NotIpAddress", "10.0.0.0/8", true}},
		"aws:PrincipalTag/team":      {{"StringEquals", "blue", false}, {"StringNotEquals", "blue", true}, {"ForAnyValue:StringLike", "b*", false}},
		"aws:MultiFactorAuthPresent": {{"Bool", "true", false}, {"Bool", "false", false}, {"BoolIfExists", "false", true}, {"BoolIfExists", "true", true}},
		"aws:MultiFactorAuthAge": {
			{"NumericLessThan", "3600", false}, {"NumericGreaterThan", "3600", false}, {"NumericNotEquals", "1", true},
			{"NumericLessThanIfExists", "3600", true}, {"Null", "true", true},
		},
	}
	statement := func(effect, conditions string) string {
		return strings.Replace(one(`,"Condition":`+conditions), "Allow", effect, 1)
	}
	for key, rows := range absent {
		for _, row := range rows {
			condition := fmt.Sprintf(`{%q:{%q:%q}}`, row.operator, key, row.value)
			for _, tt := range []struct {
				effect string
				taken  bool
				want   Effect
			}{{"Allow", !row.holds, Silent}, {"Deny", row.holds, Deny}} {
				p, err := Parse(statement(tt.effect, condition))
				var u *Unsupported
				switch {
				case !tt.taken:
					if !errors.As(err, &u) || !strings.Contains(err.Error(), key) {
						t.Errorf("%s %s: got %v, want it to be refused because of the key", tt.effect, condition, err)
					}
				case err != nil:
					t.Errorf("%s %s: %v", tt.effect, condition, err)
				default:
					if got := p.Decide(ask("sqs:SendMessage")); got != tt.want {
						t.Errorf("%s %s: got %v, want %v", tt.effect, condition, got, tt.want)
					}
					if notes := p.Notes(); len(notes) != 1 || !strings.Contains(notes[0], key) {
						t.Errorf("%s %s: noted %q, want a note on the key", tt.effect, condition, notes)
					}
				}
			}
		}
	}

	// All conditions of a statement have to hold: one that never does keeps an Allow from applying,
	// and makes a Deny none.
	const never, always = `"StringEquals":{"aws:SourceVpce":"a"}`, `"StringNotEquals":{"aws:SourceVpc":"b"}`
	const secure = `"Bool":{"aws:SecureTransport":"false"}`
	for _, tt := range []struct {
		effect, conditions string
		taken              bool
		want               Effect
	}{
		{"Allow", never + "," + always, true, Silent}, {"Allow", never + "," + secure, true, Silent}, {"Allow", always + "," + secure, false, Silent},
		{"Deny", never + "," + always, false, Silent}, {"Deny", never + "," + secure, false, Silent}, {"Deny", always + "," + secure, true, Deny},
	} {
		p, err := Parse(statement(tt.effect, "{"+tt.conditions+"}"))
		if (err == nil) != tt.taken {
			t.Errorf("%s %s: got %v, want it taken: %v", tt.effect, tt.conditions, err, tt.taken)
		} else if err == nil && p.Decide(ask("sqs:SendMessage")) != tt.want {
			t.Errorf("%s %s: got %v, want %v", tt.effect, tt.conditions, p.Decide(ask("sqs:SendMessage")), tt.want)
		}
	}
}

// Policies with the keys that services of Amazon set were always accepted, and still are: a store
// may hold them. With the newer operators these keys are judged as any other. [AUTH-46]
func TestKeysOfServices(t *testing.T) {
	for _, tt := range []struct {
		effect, operator string
		taken            bool
		want             Effect
	}{
		{"Allow", "ArnEquals", true, Silent}, {"Allow", "ArnNotEquals", true, Allow}, {"Allow", "ArnEqualsIfExists", true, Allow},
		{"Deny", "ArnEquals", true, Silent}, {"Deny", "ArnNotEquals", true, Deny}, {"Deny", "ArnEqualsIfExists", true, Deny},
		{"Allow", "ForAnyValue:ArnEquals", true, Silent}, {"Allow", "ForAllValues:ArnEquals", false, Silent},
		{"Deny", "ForAnyValue:ArnEquals", false, Silent}, {"Deny", "ForAllValues:ArnEquals", true, Deny},
	} {
		text := strings.Replace(one(fmt.Sprintf(`,"Condition":{%q:{"aws:SourceArn":"arn:aws:sns:us-east-1:1:t"}}`, tt.operator)), "Allow", tt.effect, 1)
		p, err := Parse(text)
		if (err == nil) != tt.taken {
			t.Errorf("%s %s: got %v, want it taken: %v", tt.effect, tt.operator, err, tt.taken)
		} else if err == nil {
			if got := p.Decide(ask("sqs:SendMessage")); got != tt.want || len(p.Notes()) != 1 {
				t.Errorf("%s %s: got %v and the notes %q, want %v and one", tt.effect, tt.operator, got, p.Notes(), tt.want)
			}
		}
	}
}

// [AUTH-52]
func TestNotPrincipal(t *testing.T) {
	const account, root, shop = "222222222222", "arn:aws:iam::222222222222:root", "arn:aws:iam::222222222222:user/shop"
	for _, tt := range []struct {
		names []string
		want  Effect
	}{
		{[]string{account, shop}, Silent}, {[]string{root, shop}, Silent},
		{[]string{shop}, Deny}, // without its account AWS denies the user too
		{[]string{account}, Deny}, {[]string{root}, Deny}, {[]string{"333333333333", shop}, Deny},
		{[]string{account, "arn:aws:iam::222222222222:user/other"}, Deny},
	} {
		names := `{"AWS":["` + strings.Join(tt.names, `","`) + `"]}`
		text := `{"Statement":{"Effect":"Deny","NotPrincipal":` + names + `,"Action":"*"}}`
		p, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.Decide(ask("sqs:SendMessage")); got != tt.want {
			t.Errorf("%s: got %v, want %v", names, got, tt.want)
		}
		if got := p.Decide(Ask{Action: "sqs:SendMessage", Resource: queueARN}); got != Deny {
			t.Errorf("%s, without a key: got %v, want Deny", names, got)
		}
		a := ask("sqs:SendMessage")
		a.Principal = root
		want := Deny
		if slices.Contains(tt.names, account) || slices.Contains(tt.names, root) {
			want = Silent
		}
		if got := p.Decide(a); got != want {
			t.Errorf("%s, the root user: got %v, want %v", names, got, want)
		}
	}
	for text, part := range map[string]string{
		`{"Statement":{"Effect":"Allow","NotPrincipal":{"AWS":"222222222222"},"Action":"*"}}`:                "NotPrincipal in an Allow",
		`{"Statement":{"Effect":"Deny","NotPrincipal":"*","Action":"*"}}`:                                    "leaves no principal to deny",
		`{"Statement":{"Effect":"Deny","NotPrincipal":{"AWS":["222222222222","*"]},"Action":"*"}}`:           "leaves no principal to deny",
		`{"Statement":{"Effect":"Deny","NotPrincipal":{"AWS":"1"},"Action":"*"}}`:                            "is not an account",
		`{"Statement":{"Effect":"Deny","Principal":"*","NotPrincipal":{"AWS":"222222222222"},"Action":"*"}}`: "both Principal and NotPrincipal",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want an error with %q", text, err, part)
		}
	}
	p, err := Parse(`{"Statement":{"Effect":"Deny","NotPrincipal":{"Service":"sns.amazonaws.com"},"Action":"*"}}`)
	if err != nil || p.Decide(ask("sqs:SendMessage")) != Deny {
		t.Errorf("everybody but a service: got %v, want a denial", err)
	}
}

// A Resource that is not an ARN matches no request. [AUTH-53]
func TestResourceThatIsNoARN(t *testing.T) {
	for _, tt := range []struct {
		effect, element, resources string
		taken                      bool
		want                       Effect
	}{
		{"Allow", "Resource", `"orders"`, true, Silent},
		{"Allow", "Resource", `["orders","` + queueARN + `"]`, true, Allow},
		{"Allow", "Resource", `"*orders"`, true, Silent}, // which would match the ARN as a text
		{"Allow", "Resource", `"https://sqs.us-east-1.amazonaws.com/111111111111/*"`, true, Silent},
		{"Allow", "Resource", `"arn:aws:s3:::orders"`, false, Silent}, // an ARN of something else was meant, or is misspelt
		{"Allow", "Resource", `true`, false, Silent},
		{"Allow", "NotResource", `"orders"`, false, Silent},
		{"Allow", "NotResource", `["orders","` + queueARN + `"]`, false, Silent},
		{"Deny", "Resource", `"orders"`, false, Silent},
		{"Deny", "Resource", `["orders","*"]`, false, Silent},
		{"Deny", "NotResource", `"orders"`, true, Deny},
		{"Deny", "NotResource", `"*orders"`, true, Deny},
		{"Deny", "NotResource", `["orders","` + queueARN + `"]`, true, Silent},
	} {
		text := `{"Statement":{"Effect":"` + tt.effect + `","Principal":"*","Action":"*","` + tt.element + `":` + tt.resources + `}}`
		p, err := Parse(text)
		if (err == nil) != tt.taken {
			t.Errorf("%s: got %v, want it taken: %v", text, err, tt.taken)
		} else if err == nil {
			if got := p.Decide(ask("sqs:SendMessage")); got != tt.want || len(p.Notes()) != 1 {
				t.Errorf("%s: got %v and the notes %q, want %v and one", text, got, p.Notes(), tt.want)
			}
		}
	}
}

// A policy that says what it says on Amazon SQS has no notes.
func TestNotes(t *testing.T) {
	for text, want := range map[string]string{
		one(``): "",
		one(`,"Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`):                                                                      "",
		one(`,"Condition":{"StringEquals":{"aws:SourceVpce":"vpce-1"}}`):                                                                     "statement 1: it allows nothing: no request to this server has the condition key aws:SourceVpce",
		strings.Replace(one(``), queueARN, "orders", 1):                                                                                      `statement 1: its Resource "orders" is not an ARN and matches no queue; it allows nothing`,
		`{"Statement":[` + statementOf(one(``)) + `,` + statementOf(one(`,"Condition":{"Bool":{"aws:MultiFactorAuthPresent":true}}`)) + `]}`: "statement 2: it allows nothing: no request to this server has the condition key aws:MultiFactorAuthPresent",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.Join(p.Notes(), "\n"); got != want {
			t.Errorf("%s: noted %q, want %q", text, got, want)
		}
	}
}

// statementOf returns the statement of a policy that one made.
func statementOf(text string) string {
	_, rest, _ := strings.Cut(text, `"Statement":`)
	return strings.TrimSuffix(rest, "}")
}
