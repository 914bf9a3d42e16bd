package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"tenaq/internal/door/credentials"
)

// twoAccounts are keys of two accounts. The second may only send to queues.
func twoAccounts(t *testing.T) *credentials.Set {
	t.Helper()
	file := `{"credentials": [
		{"id": "TQALL001", "secret": "canary-of-everything", "account": "111122223333", "name": "all", "allow": ["*"]},
		{"id": "TQSEND01", "secret": "canary-of-the-sender", "account": "444455556666", "name": "sender", "allow": ["sqs:SendMessage"]},
		{"id": "TQENDED1", "secret": "canary-of-the-past", "allow": ["*"], "expires": "2020-01-01T00:00:00Z"}]}`
	return keysOf(t, file)
}

func keyOf(id, secret string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, nil
	})
}

// whoAmI asks with the SDK. It returns account, ARN and user id, or the code of the error.
func whoAmI(t *testing.T, s *Server, region, id, secret string) string {
	t.Helper()
	c := sts.New(sts.Options{Region: region, BaseEndpoint: aws.String("http://" + s.Addr()), Retryer: aws.NopRetryer{}, HTTPClient: client, Credentials: keyOf(id, secret)})
	got, err := c.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	var refusal smithy.APIError
	switch {
	case errors.As(err, &refusal):
		return refusal.ErrorCode()
	case err != nil:
		return err.Error()
	}
	return *got.Account + " " + *got.Arn + " " + *got.UserId
}

// A caller with a key may ask who it is, whatever else the key allows. [AUTH-49, AUTH-40]
func TestCallerIdentity(t *testing.T) {
	cfg := config(t)
	cfg.Credentials = twoAccounts(t)
	s, stop := run(t, cfg)
	sender := cfg.Credentials.Find("TQSEND01").UserID()
	for _, test := range []struct{ region, id, secret, want string }{
		{"us-east-1", "TQSEND01", "canary-of-the-sender", "444455556666 arn:aws:iam::444455556666:user/sender " + sender},
		{"us-east-1", "TQSEND01", "canary-of-nobody-here", "SignatureDoesNotMatch"},
		{"us-east-1", "TQNOBODY", "canary-of-nobody-here", "InvalidClientTokenId"},
		{"us-east-1", "TQENDED1", "canary-of-the-past", "ExpiredToken"},
		{"eu-west-1", "TQSEND01", "canary-of-the-sender", "SignatureDoesNotMatch"},
	} {
		if got := whoAmI(t, s, test.region, test.id, test.secret); got != test.want {
			t.Errorf("%s in %s: got %s, want %s", test.id, test.region, got, test.want)
		}
	}
	if status, body := get(t, "http://"+s.Addr()+"/?Action=GetCallerIdentity&Version=2011-06-15"); status != http.StatusForbidden || !strings.Contains(body, "<Code>MissingAuthenticationToken</Code>") {
		t.Errorf("not signed: got %d %s, want 403", status, body)
	}
	presigned, err := sts.NewPresignClient(sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://" + s.Addr()), Credentials: keyOf("TQSEND01", "canary-of-the-sender")})).
		PresignGetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, presigned.URL); status != http.StatusOK || !strings.Contains(body, "<UserId>"+sender+"</UserId>") {
		t.Errorf("presigned: got %d %s, want 200", status, body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// On a server without credentials, every caller is the root user of the account, signed or not.
// [AUTH-4, AUTH-49]
func TestCallerIdentityWithoutCredentials(t *testing.T) {
	s, stop := run(t, config(t))
	const want = "000000000000 arn:aws:iam::000000000000:root 000000000000"
	if got := whoAmI(t, s, "eu-west-1", "whatever", "whatever"); got != want {
		t.Errorf("signed: got %s, want %s", got, want)
	}
	if status, body := get(t, "http://"+s.Addr()+"/?Action=GetCallerIdentity&Version=2011-06-15"); status != http.StatusOK || !strings.Contains(body, "<Account>000000000000</Account>") {
		t.Errorf("GET: got %d %s, want 200", status, body)
	}
	for body, want := range map[string]string{
		"Action=GetCallerIdentity&Version=2011-06-15": "<GetCallerIdentityResponse ",
		"Action=ListQueues&Version=2012-11-05":        "<ListQueuesResponse ",
	} {
		resp, err := client.Post("http://"+s.Addr()+"/", "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(got), want) {
			t.Errorf("form %s: got %d %s, want %s", body, resp.StatusCode, got, want)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+"/?Action=GetCallerIdentity", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://elsewhere.example.com")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: got %d, want 403", resp.StatusCode)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestPolicyOfConnection lets another account send as long as it comes from this machine, and no
// longer. [AUTH-17, AUTH-45, AUTH-46]
func TestPolicyOfConnection(t *testing.T) {
	cfg := config(t)
	cfg.Credentials = twoAccounts(t)
	s, stop := run(t, cfg)
	as := func(id, secret string) *sqs.Client {
		return sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://" + s.Addr()), Retryer: aws.NopRetryer{}, HTTPClient: client, Credentials: keyOf(id, secret)})
	}
	owner, sender := as("TQALL001", "canary-of-everything"), as("TQSEND01", "canary-of-the-sender")
	ctx := t.Context()
	made, err := owner.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders")})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		network, secure string
		fine            bool
	}{
		{"10.0.0.0/8", "false", false},
		{"127.0.0.0/8", "false", true},
		{"127.0.0.0/8", "true", false},
		{"127.0.0.1", "false", true},
	} {
		_, err := owner.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: made.QueueUrl, Attributes: map[string]string{
			"Policy": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"444455556666"},"Action":"sqs:SendMessage","Resource":"*",
				"Condition":{"IpAddress":{"aws:SourceIp":"` + test.network + `"},"Bool":{"aws:SecureTransport":"` + test.secure + `"}}}}`}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = sender.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: made.QueueUrl, MessageBody: aws.String("x")})
		var refusal smithy.APIError
		if fine := err == nil; fine != test.fine || !fine && (!errors.As(err, &refusal) || refusal.ErrorCode() != "AccessDenied") {
			t.Errorf("%s, TLS %s: got %v, want it let in: %v", test.network, test.secure, err, test.fine)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
