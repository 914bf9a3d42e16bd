package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

const queueARN = "arn:aws:sqs:us-east-1:111111111111:orders"

// ask is a question of a user of another account, over plain HTTP.
func ask(action string) Ask {
	return Ask{
		Action: action, Resource: queueARN, Principal: "arn:aws:iam::222222222222:user/shop", Account: "222222222222",
		SourceIP: netip.MustParseAddr("10.1.2.3"), UserAgent: "aws-sdk-go-v2/1.30", Now: 1795348800, // 2026-11-22T12:00:00Z
	}
}

// one is a policy of one statement that allows something.
func one(elements string) string {
	return `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"` + queueARN + `"` + elements + `}}`
}

func TestDecide(t *testing.T) {
	allow := func(principal, action, resource string) string {
		return `{"Effect":"Allow","Principal":` + principal + `,"Action":` + action + `,"Resource":` + resource + `}`
	}
	send, arn := `"sqs:SendMessage"`, `"`+queueARN+`"`
	for _, tt := range []struct {
		statements string
		want       Effect
	}{
		{allow(`"*"`, send, arn), Allow},
		{allow(`"*"`, `"SQS:sendmessage"`, arn), Allow},
		{allow(`"*"`, `"sqs:Send*"`, arn), Allow},
		{allow(`"*"`, `["sqs:ReceiveMessage","sqs:*"]`, arn), Allow},
		{allow(`"*"`, `"*"`, `"*"`), Allow},
		{allow(`"*"`, `"sqs:Receive*"`, arn), Silent},
		{strings.Replace(allow(`"*"`, `"sqs:Receive*"`, arn), "Action", "NotAction", 1), Allow},
		{strings.Replace(allow(`"*"`, `["sqs:Receive*","SQS:SEND*"]`, arn), "Action", "NotAction", 1), Silent},
		{strings.Replace(allow(`"*"`, send, arn), "Resource", "NotResource", 1), Silent},
		{strings.Replace(allow(`"*"`, send, `"arn:aws:sqs:us-east-1:111111111111:other"`), "Resource", "NotResource", 1), Allow},
		{allow(`"*"`, `"*"`, arn) + `,` + strings.Replace(strings.Replace(allow(`"*"`, `"sqs:Receive*"`, arn), "Action", "NotAction", 1), "Allow", "Deny", 1), Deny},
		{allow(`"*"`, send, `"arn:aws:sqs:*:111111111111:o?ders"`), Allow},
		{allow(`"*"`, send, `"arn:aws:sqs:us-east-1:111111111111:other"`), Silent},
		{allow(`{"AWS":"222222222222"}`, send, arn), Allow},
		{allow(`{"AWS":["333333333333","arn:aws:iam::222222222222:root"]}`, send, arn), Allow},
		{allow(`{"AWS":"arn:aws:iam::222222222222:user/shop"}`, send, arn), Allow},
		{allow(`{"AWS":"arn:aws:iam::222222222222:user/other"}`, send, arn), Silent},
		{allow(`{"AWS":"arn:aws:iam::333333333333:root"}`, send, arn), Silent},
		{allow(`{"Service":"sns.amazonaws.com"}`, send, arn), Silent},
		{allow(`"*"`, send, arn) + `,` + strings.Replace(allow(`{"AWS":"222222222222"}`, `"sqs:Send*"`, arn), "Allow", "Deny", 1), Deny},
		{strings.Replace(allow(`"*"`, `"*"`, arn), "Allow", "Deny", 1) + `,` + allow(`"*"`, send, arn), Deny},
		{strings.Replace(allow(`{"AWS":"333333333333"}`, `"*"`, arn), "Allow", "Deny", 1) + `,` + allow(`"*"`, send, arn), Allow},
	} {
		p, err := Parse(`{"Version":"2012-10-17","Id":"x","Statement":[` + tt.statements + `]}`)
		if err != nil {
			t.Errorf("%s: %v", tt.statements, err)
			continue
		}
		if got := p.Decide(ask("sqs:SendMessage")); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.statements, got, tt.want)
		}
	}
	if got := (&Policy{}).Decide(ask("sqs:SendMessage")); got != Silent {
		t.Errorf("no policy: got %v, want Silent", got)
	}
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		condition string
		want      Effect
	}{
		{`{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`, Allow},
		{`{"IpAddress":{"aws:SourceIp":["192.168.0.0/16","10.1.2.3"]}}`, Allow},
		{`{"IpAddress":{"aws:SourceIp":"10.1.2.4"}}`, Silent},
		{`{"NotIpAddress":{"aws:sourceip":"10.0.0.0/8"}}`, Silent},
		{`{"Bool":{"aws:SecureTransport":"false"}}`, Allow},
		{`{"Bool":{"aws:SecureTransport":true}}`, Silent},
		{`{"StringEquals":{"aws:PrincipalAccount":"222222222222"},"Bool":{"aws:SecureTransport":"true"}}`, Silent}, // all have to hold
		{`{"StringNotEquals":{"aws:PrincipalAccount":["333333333333","222222222222"]}}`, Silent},
		{`{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/sh?p"}}`, Allow},
		{`{"ArnLike":{"aws:PrincipalArn":"arn:aws:*:*:222222222222:user/*"}}`, Allow},
		{`{"ArnLike":{"aws:PrincipalArn":"arn:*:*:*:222222222222:*"}}`, Allow},
		{`{"StringLike":{"aws:PrincipalArn":"arn:*/shop"}}`, Allow}, // but in a text it does
		{`{"IpAddress":{"aws:SourceIp":"::ffff:10.0.0.0/104"}}`, Allow},
		{`{"IpAddress":{"aws:SourceIp":"::ffff:10.1.2.3"}}`, Allow},
		{`{"IpAddress":{"aws:SourceIp":"::ffff:11.0.0.0/104"}}`, Silent},
		{`{"IpAddress":{"aws:SourceIp":"::ffff:0.0.0.0/96"}}`, Allow},
		{`{"ArnEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:1:t"}}`, Silent},
		{`{"ArnNotEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:1:t"}}`, Allow}, // a negated one holds where the key is not
		{`{"ArnEqualsIfExists":{"aws:SourceArn":"arn:aws:sns:us-east-1:1:t"}}`, Allow},
		{`{"StringEqualsIgnoreCase":{"aws:PrincipalArn":"ARN:aws:iam::222222222222:USER/shop"}}`, Allow},
		{`{"StringNotEqualsIgnoreCase":{"aws:PrincipalArn":"ARN:aws:iam::222222222222:USER/shop"}}`, Silent},
		{`{"DateLessThan":{"aws:CurrentTime":"2026-11-22T12:00:01Z"}}`, Allow},
		{`{"DateLessThan":{"aws:CurrentTime":"2026-11-22T12:00:00Z"}}`, Silent},
		{`{"DateLessThanEquals":{"aws:CurrentTime":"2026-11-22T12:00:00Z"}}`, Allow}, // a request has a whole second
		{`{"DateLessThanEquals":{"aws:CurrentTime":"2026-11-22T12:00:00+01:00"}}`, Silent},
		{`{"DateGreaterThan":{"aws:CurrentTime":"2026-11-22"},"DateLessThan":{"aws:CurrentTime":"2026-11-23"}}`, Allow},
		{`{"DateGreaterThan":{"aws:CurrentTime":"2026-11-23"}}`, Silent},
		{`{"DateGreaterThanEquals":{"aws:CurrentTime":"2026-11-22T12:00Z"}}`, Allow},
		{`{"DateEquals":{"aws:EpochTime":"2026-11-22T12:00:00.0Z"}}`, Allow},
		{`{"DateNotEquals":{"aws:EpochTime":["2026-11-22T12:00:00Z","2026-11-23"]}}`, Silent},
		{`{"DateEquals":{"aws:CurrentTime":"1795348800"}}`, Allow},
		{`{"NumericEquals":{"aws:EpochTime":1795348800.0}}`, Allow},
		{`{"NumericNotEquals":{"aws:EpochTime":"1795348800"}}`, Silent},
		{`{"NumericLessThan":{"aws:EpochTime":"1795348800"}}`, Silent},
		{`{"NumericLessThanEquals":{"aws:EpochTime":["-1","1795348800"]}}`, Allow},
		{`{"NumericGreaterThan":{"aws:EpochTime":"999999999"}}`, Allow}, // by value, not by text
		{`{"NumericGreaterThanEquals":{"aws:EpochTime":"1795348800.5"}}`, Silent},
		{`{"StringLike":{"aws:UserAgent":"aws-sdk-go*"}}`, Allow},
		{`{"StringNotLike":{"aws:UserAgent":["aws-sdk-*","boto*"]}}`, Silent},
		{`{"StringEquals":{"aws:useragent":"AWS-sdk-go-v2/1.30"}}`, Silent},
		{`{"ForAllValues:StringLike":{"aws:UserAgent":"aws-sdk-go*"}}`, Allow},
		{`{"ForAllValues:StringLike":{"aws:UserAgent":"boto*"}}`, Silent},
		{`{"forAnyValue:stringNotLike":{"aws:UserAgent":"boto*"}}`, Allow},
		{`{"ForAnyValue:IpAddress":{"aws:SourceIp":"11.0.0.0/8"}}`, Silent},
		{`{"Null":{"aws:UserAgent":"false"}}`, Allow},
		{`{"Null":{"aws:UserAgent":true}}`, Silent},
	} {
		p, err := Parse(one(`,"Condition":` + tt.condition))
		if err != nil {
			t.Errorf("%s: %v", tt.condition, err)
			continue
		}
		a := ask("sqs:SendMessage")
		for _, from := range []string{"10.1.2.3", "::ffff:10.1.2.3", "::ffff:10.1.2.3%eth0"} { // the same address
			a.SourceIP = netip.MustParseAddr(from)
			if got := p.Decide(a); got != tt.want {
				t.Errorf("%s from %s: got %v, want %v", tt.condition, from, got, tt.want)
			}
		}
	}
}

// Elements that are not evaluated are refused.
func TestParseRefuses(t *testing.T) {
	many := func(n int, what string) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	for text, part := range map[string]string{
		``:                 "not a JSON object",
		`[]`:               "not a JSON object",
		`{}`:               "no statements",
		`{"Statement":[]}`: "no statements",
		`{"Version":"2013-01-01","Statement":[]}`: "neither 2012-10-17",
		one(``) + `{}`:              "text after",
		one(`,"Effect":"Deny"`):     "given twice",
		one(`,"effect":"Deny"`):     "given twice",
		one(`,"NotAction":"sqs:*"`): `both Action and NotAction`,
		one(`,"NotResource":"*"`):   `both Resource and NotResource`,
		strings.Replace(one(``), `"Action":"sqs:SendMessage"`, `"NotAction":[]`, 1): "its Action is not",
		strings.Replace(one(``), `"Principal"`, `"NotPrincipal"`, 1):                `NotPrincipal in an Allow`,
		one(`,"NotPrincipal":"*"`):                                                                     `both Principal and NotPrincipal`,
		strings.Replace(one(``), `"Principal":"*",`, ``, 1):                                            "no Principal",
		strings.Replace(one(``), `"*"`, `"222222222222"`, 1):                                           "its Principal must be",
		strings.Replace(one(``), `"*"`, `{"AWS":"arn:aws:iam::222222222222:user/*"}`, 1):               "is not an account",
		strings.Replace(one(``), `"*"`, `{"Federated":"x"}`, 1):                                        `"Federated" is not supported`,
		strings.Replace(one(``), `"*"`, `{}`, 1):                                                       "its Principal must be",
		strings.Replace(one(``), `Allow`, `allow`, 1):                                                  "neither Allow nor Deny",
		strings.Replace(one(``), `sqs:SendMessage`, `s3:GetObject`, 1):                                 "not an action of SQS",
		strings.Replace(one(``), `"sqs:SendMessage"`, `[`+many(8, `"sqs:*"`)+`]`, 1):                   "8 actions were found in a statement",
		one(`,"Condition":{"DateNotLessThan":{"aws:CurrentTime":"2030-01-01"}}`):                       `"DateNotLessThan" is not supported`,
		one(`,"Condition":{"NotBool":{"aws:SecureTransport":"true"}}`):                                 `"NotBool" is not supported`,
		one(`,"Condition":{"NullIfExists":{"aws:SourceIp":"true"}}`):                                   `"NullIfExists" is not supported`,
		one(`,"Condition":{"ForAllValues:Null":{"aws:SourceIp":"true"}}`):                              `"ForAllValues:Null" is not supported`,
		one(`,"Condition":{"ForAnyValue:StringLikeIfExists":{"aws:UserAgent":"x"}}`):                   `"ForAnyValue:StringLikeIfExists" is not supported`,
		one(`,"Condition":{"StringEquals":{"aws:Referer":"x"}}`):                                       `"aws:Referer" is not supported`,
		one(`,"Condition":{"StringEquals":{"aws:PrincipalTag/":"x"}}`):                                 `"aws:PrincipalTag/" is not supported`,
		one(`,"Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/99"}}`):                               "not an address",
		one(`,"Condition":{"StringLike":{"aws:PrincipalArn":"${aws:username}"}}`):                      "has a variable",
		one(`,"Condition":{"StringEquals":{"aws:PrincipalArn":[]}}`):                                   "has no value",
		one(`,"Condition":{"StringEquals":{"aws:PrincipalArn":7}}`):                                    `"7" is not an ARN`,
		one(`,"Condition":{"StringEquals":{"aws:PrincipalArn":{}}}`):                                   "not strings",
		one(`,"Condition":{"Foo":{"a":"b"},"Bar":{"a":"b"},"StringEquals":{"z":"b"}}`):                 `operator "Bar"`, // always the first by name
		strings.Replace(one(``), queueARN, `arn:aws:sqs:*:*:${aws:username}`, 1):                       "has a variable",
		strings.Replace(one(``), `"*"`, `{"AWS":"arn:aws:iam::222222222222:user/${aws:username}"}`, 1): "is not an account",
		`{"Statement":"` + strings.Repeat("x", BytesMax) + `"}`:                                        "Submitted policy is over max allowed size.",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.200s: got %v, want an error with %q", text, err, part)
		}
	}
	statement := `{"Effect":"Allow","Principal":"*","Action":"sqs:*"}`
	account := `"222222222222"`
	for text, want := range map[string]string{
		`{"Statement":[` + many(22, statement) + `]}`:                                 "22 statements were found in the submitted policy, max allowed is 20",
		strings.Replace(one(``), `"sqs:SendMessage"`, `[`+many(10, `"sqs:*"`)+`]`, 1): "10 actions were found in a statement from the submitted policy, max allowed is 7",
		strings.Replace(one(``), `"*"`, `{"AWS":[`+many(51, account)+`]}`, 1):         "51 principals were found in a statement from the submitted policy, max allowed is 50",
		one(`,"Condition":` + elevenConditions):                                       "11 conditions were found in a statement from the submitted policy, max allowed is 10",
		one(strings.Repeat(" ", BytesMax)):                                            "Submitted policy is over max allowed size.",
	} {
		var excess *Excess
		if _, err := Parse(text); !errors.As(err, &excess) || excess.Reason != want {
			t.Errorf("%.200s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Parse(`{"Statement":[` + many(20, statement) + `]}`); err != nil {
		t.Errorf("20 statements: got %v", err)
	}
}

const elevenConditions = `{"StringLike":{"aws:UserAgent":"x","aws:PrincipalArn":"x","aws:PrincipalAccount":"x","aws:SourceArn":"x"},` +
	`"StringNotLike":{"aws:UserAgent":"x","aws:PrincipalArn":"x","aws:PrincipalAccount":"x","aws:SourceArn":"x"},` +
	`"Bool":{"aws:SecureTransport":true},"IpAddress":{"aws:SourceIp":"::1"},"NotIpAddress":{"aws:SourceIp":"::1"}}`

// [AUTH-22, AUTH-24]
func TestUnsupported(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Replace(one(``), `"Principal"`, `"NotPrincipal"`, 1):    true,
		one(`,"Condition":{"DateLessThan":{"aws:CurrentTime":"2030"}}`): true,
		strings.Replace(one(``), `"*"`, `{"Federated":"x"}`, 1):         true,
		`{"Statement":"` + strings.Repeat("x", BytesMax) + `"}`:         false,
		``:   false,
		`{}`: false,
		strings.Replace(one(``), `Allow`, `allow`, 1):                    false,
		one(`,"Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/99"}}`): true,
	} {
		_, err := Parse(text)
		var u *Unsupported
		if got := errors.As(err, &u); err == nil || got != want {
			t.Errorf("%.200s: got %v, want it to be unsupported: %v", text, err, want)
		}
	}
}

// A condition that can never match is refused with the reason: a Deny with it would be stored and
// never fire. [AUTH-24]
func TestNeverFires(t *testing.T) {
	action := func(a string) string { return strings.Replace(one(``), "sqs:SendMessage", a, 1) }
	resource := func(r string) string { return strings.Replace(one(``), queueARN, r, 1) }
	when := func(operator, key, value string) string {
		return one(fmt.Sprintf(`,"Condition":{%q:{%q:%q}}`, operator, key, value))
	}
	for _, tt := range []struct{ text, reason string }{
		{action("sqs:SendMesage"), `"sqs:SendMesage" matches no action: correct or remove it`},
		{strings.Replace(action("sqs:SendMesage"), `"Action"`, `"NotAction"`, 1), "matches no action"},
		{action("sqs:"), "matches no action"},
		{action("sqs:?"), "matches no action"},
		{action("sqs:SendMessageBatch"), `"sqs:SendMessageBatch" is not an action: the right to the single action covers batches; name that one`},
		{action("sqs:*Batch"), "is not an action: the right"},
		{action("sqs:*"), ""}, {action("sqs:*Message"), ""}, {action("SQS:purgequeue"), ""}, {action("sqs:?etQueueUrl"), ""},
		{resource("plain"), `"plain" is not the ARN of a queue`},
		{resource(""), "is not the ARN of a queue"},
		{resource("arn:aws:sqs:us-east-1:111111111111"), "is not the ARN of a queue"},
		{resource("arn:aws:sqs:us-east-1:111111111111:"), "is not the ARN of a queue"},
		{resource("arn:aws:sqs::111111111111:orders"), "is not the ARN of a queue"},
		{resource("arn:aws:sqs:us-east-1:11111111111:orders"), "is not the ARN of a queue"},
		{resource("arn:aws:sqs:us-east-1:shop:orders"), "is not the ARN of a queue"},
		{resource("arn:aws:sqs:us-east-1:1111111111111*:orders"), "is not the ARN of a queue"},
		{resource("arn:aws:s3:::orders"), "is not the ARN of a queue"},
		{resource(queueARN + ":x"), "is not the ARN of a queue"},
		{resource("https://sqs.us-east-1.amazonaws.com/111111111111/*"), "is not the ARN of a queue"},
		{resource("*"), ""}, {resource("arn:aws:sqs:*"), ""}, {resource("arn:*:sqs:*:1111*:o?ders"), ""}, {resource("arn:aws:sqs:*:*:*"), ""},
		{when("Bool", "aws:SecureTransport", "flase"), `"flase" is neither true nor false`},
		{when("BoolIfExists", "aws:SecureTransport", ""), "is neither true nor false"},
		{when("Bool", "aws:SourceIp", "10.0.0.0/8"), `"Bool" is not for the key "aws:SourceIp"`},
		{when("IpAddress", "aws:PrincipalArn", "10.0.0.0/8"), "is not for the key"},
		{when("NotIpAddress", "aws:PrincipalArn", "10.0.0.0/8"), "is not for the key"},
		{when("StringEquals", "aws:SourceIp", "10.0.0.0/8"), "is not for the key"},
		{when("StringLike", "aws:SecureTransport", "f*"), "is not for the key"},
		{when("ArnLike", "aws:PrincipalAccount", "arn:aws:iam::*:user/*"), "is not for the key"},
		{when("IpAddress", "aws:SourceIp", "10.0.0.0/99"), `"10.0.0.0/99" is not an address or a network`},
		{when("IpAddress", "aws:SourceIp", "fe80::1%eth0"), "is not an address or a network"},
		{when("IpAddress", "aws:SourceIp", "::ffff:0.0.0.0/95"), "name a network of either"},
		{when("ArnEquals", "aws:PrincipalArn", "shop"), `"shop" is not an ARN`},
		{when("ArnLike", "aws:PrincipalArn", "arn:aws:iam::*"), "is not an ARN"},
		{when("ArnNotLike", "aws:SourceArn", "*"), "is not an ARN"},
		{when("StringEquals", "aws:PrincipalArn", "user/shop"), "is not an ARN"},
		{when("StringEquals", "aws:PrincipalAccount", "2222-2222-2222"), "is not an account"},
		{when("Bool", "aws:SecureTransport", "False"), ""}, {when("StringLike", "aws:PrincipalAccount", "2222*"), ""},
		{when("ArnNotLike", "aws:SourceArn", "arn:aws:sns:*:*:*"), ""}, {when("StringEquals", "aws:PrincipalOrgID", "o-1"), ""},
		{when("IpAddress", "aws:SourceIp", "2001:db8::/32"), ""},
		{when("DateLessThan", "aws:CurrentTime", "soon"), `"soon" is not a date`},
		{when("DateLessThan", "aws:CurrentTime", "2030"), `"2030" is not a date`},
		{when("DateLessThan", "aws:CurrentTime", "20300131"), `"20300131" is not a date`},
		{when("DateLessThan", "aws:CurrentTime", "1893456000000"), `"1893456000000" is not a date`},
		{when("DateLessThan", "aws:CurrentTime", "2030-01-31T12:00:00"), "is not a date"},
		{when("DateLessThan", "aws:SourceIp", "2030-01-31"), "is not for the key"},
		{when("NumericLessThan", "aws:CurrentTime", "1893456000"), "is not for the key"},
		{when("NumericLessThan", "aws:EpochTime", "2030-01-31"), `"2030-01-31" is not a number`},
		{when("NumericLessThan", "aws:EpochTime", "1e9"), `"1e9" is not a number`},
		{when("NumericLessThan", "aws:EpochTime", strings.Repeat("9", 41)), "is not a number"},
		{when("StringEquals", "aws:CurrentTime", "2030-01-31"), "is not for the key"},
		{when("Null", "aws:SourceIp", "yes"), `"yes" is neither true nor false`},
		{when("DateLessThan", "aws:CurrentTime", "2030-01-31"), ""}, {when("DateLessThan", "aws:EpochTime", "1893456000"), ""},
		{when("NumericLessThan", "aws:EpochTime", "1893456000.5"), ""}, {when("StringLike", "aws:UserAgent", "curl*"), ""},
	} {
		_, err := Parse(strings.Replace(tt.text, "Allow", "Deny", 1))
		var u *Unsupported
		if tt.reason == "" {
			if err != nil {
				t.Errorf("%s: got %v, want no error", tt.text, err)
			}
		} else if !errors.As(err, &u) || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: got %v, want the reason %q", tt.text, err, tt.reason)
		}
	}
}

// A queue's own account as principal allows nothing to its users by itself, and denies what it
// says. [AUTH-42]
func TestOwnAccount(t *testing.T) {
	own := ask("sqs:SendMessage")
	own.Principal, own.Account = "arn:aws:iam::111111111111:user/billing", "111111111111"
	for principal, want := range map[string]Effect{
		`"*"`:                    Allow,
		`{"AWS":"*"}`:            Allow,
		`{"AWS":"111111111111"}`: Silent,
		`{"AWS":"arn:aws:iam::111111111111:root"}`:                          Silent,
		`{"AWS":"arn:aws:iam::111111111111:user/billing"}`:                  Allow,
		`{"AWS":["111111111111","arn:aws:iam::111111111111:user/billing"]}`: Allow,
	} {
		p, err := Parse(strings.Replace(one(``), `"*"`, principal, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Decide(own); got != want {
			t.Errorf("%s: got %v, want %v", principal, got, want)
		}
		p, err = Parse(strings.Replace(strings.Replace(one(``), `"*"`, principal, 1), "Allow", "Deny", 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Decide(own); got != Deny {
			t.Errorf("%s denied: got %v, want Deny", principal, got)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false},
		{"?", "", false}, {"?", "a", true}, {"a?c", "abc", true}, {"**a**", "bab", true}, {"*a*b*c", "xaybzc", true}, {"*a*b*c", "xaybz", false},
		{"a*", "a", true}, {"a*?", "a", false},
		{strings.Repeat("*a", 50) + "b", strings.Repeat("a", 5000), false},
	} {
		if got := Match(tt.pattern, tt.s); got != tt.want {
			t.Errorf("match(%.20q, %.20q) = %v, want %v", tt.pattern, tt.s, got, tt.want)
		}
	}
}

// Parts of ARNs are compared one by one; only the last may have colons in it.
func TestMatchARN(t *testing.T) {
	const object, user = "arn:aws:sns:us-east-1:111111111111:a:b", "arn:aws:iam::222222222222:user/shop"
	for _, tt := range []struct {
		pattern, arn string
		want         bool
	}{
		{object, object, true}, {user, user, true}, {"arn:aws:iam::*:user/sh?p", user, true}, {"arn:*:*:*:*:*", object, true}, {"arn:*:*:*:*:*", user, true},
		{"arn:aws:sns:*:*:a:*", object, true}, {"arn:aws:sns:*:*:b", object, false}, {"arn:aws:*:111111111111:a:b", object, false},
		{"arn:aws:iam::*", user, false}, {"*", user, false}, {"arn:aws:iam:*:user/shop", user, false}, {"", "", true},
	} {
		if got := matchARN(tt.pattern, tt.arn); got != tt.want {
			t.Errorf("matchARN(%q, %q) = %v, want %v", tt.pattern, tt.arn, got, tt.want)
		}
	}
}

// FuzzParse looks for texts on which it panics, for policies that say something else when a denial
// of everything is added than to deny everything, and for ones that cannot be read any more when a
// permission was added.
func FuzzParse(f *testing.F) {
	f.Add(one(``))
	f.Add(one(`,"Condition":{"NotIpAddress":{"aws:SourceIp":["10.0.0.0/8","::1"]}}`))
	f.Add(`{"Statement":[{"Effect":"Deny","Principal":{"AWS":["1"]},"Action":["sqs:*"]}]}`)
	f.Add(one(`,"Condition":{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/*"},"IpAddress":{"aws:SourceIp":"::ffff:10.0.0.0/104"}}`))
	f.Add(one(`,"Condition":{"DateLessThan":{"aws:CurrentTime":["2030-01-31T12:00:00.5+01:00","1893456000"]},"NumericGreaterThanEquals":{"aws:EpochTime":-1.5}}`))
	f.Add(one(`,"Condition":{"ForAnyValue:StringEquals":{"aws:PrincipalTag/team":"x"},"StringNotLikeIfExists":{"aws:SourceVpce":["a*","b"]}}`))
	f.Add(strings.Replace(one(`,"Condition":{"BoolIfExists":{"aws:MultiFactorAuthPresent":false},"Null":{"aws:MultiFactorAuthAge":"true"}}`), "Allow", "Deny", 1))
	f.Add(`{"Statement":{"Effect":"Deny","NotPrincipal":{"AWS":["222222222222","arn:aws:iam::222222222222:user/shop"]},"Action":"*","NotResource":["orders","*"]}}`)
	f.Add(`{"Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":["orders","https://queue/1/orders"]}}`)
	f.Add(`{"version":"2012-10-17","ID":"\ud800","Statement":{"SID":"<>&","Effect":"Deny","Principal":"*","NotAction":"sqs:Send*","NotResource":"*"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if p != nil || err.Error() == "" {
				t.Fatal("an error with a policy, or without a text")
			}
			return
		}
		p.Decide(ask("sqs:SendMessage"))
		if added, err := Add(text, queueARN, "another", []string{"222222222222"}, []string{"SendMessage"}); err == nil {
			if _, err := Parse(added); err != nil {
				t.Fatalf("with a permission more it cannot be read: %v: %s", err, added)
			}
			if left, err := Remove(added, queueARN, "another"); err != nil || left == "" {
				t.Fatalf("without that permission it is %q, %v", left, err)
			}
		} else if _, ok := IsRefusal(err); !ok {
			t.Fatalf("no permission can be added: %v", err)
		}
		if !Equal(text, " "+text) {
			t.Fatal("it is another with a blank more")
		}
		p.statements = append(p.statements, statement{effect: Deny, principals: []string{"*"}, actions: []string{"*"}})
		if got := p.Decide(ask("sqs:SendMessage")); got != Deny {
			t.Fatalf("got %v beside a denial of everything", got)
		}
	})
}

func ExamplePolicy_Decide() {
	p, err := Parse(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"AWS":"222222222222"},"Action":"sqs:SendMessage","Resource":"*"},
		{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	a := Ask{Action: "sqs:SendMessage", Resource: queueARN, Principal: "arn:aws:iam::222222222222:user/shop", Account: "222222222222", Secure: true}
	fmt.Println(p.Decide(a) == Allow)
	a.Secure = false
	fmt.Println(p.Decide(a) == Deny)
	// Output:
	// true
	// true
}
