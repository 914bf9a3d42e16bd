package sigv4_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/door/sigv4"
)

func ExampleVerifier() {
	// A client signs a request.
	body := "{}"
	sum := sha256.Sum256([]byte(body))
	r := httptest.NewRequest("POST", "http://queue.example.com/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonSQS.ListQueues")
	key := aws.Credentials{AccessKeyID: "TQORDERS01", SecretAccessKey: "not-for-use-anywhere"}
	if err := v4.NewSigner().SignHTTP(context.Background(), key, r, fmt.Sprintf("%x", sum), "sqs", "eu-central-1", time.Now()); err != nil {
		panic(err)
	}

	// A server verifies it: first what needs no body, then the signature.
	v := sigv4.New(sigv4.Config{Region: "eu-central-1"})
	q, err := v.Parse(r, "sqs")
	fmt.Println(q.KeyID, err)
	fmt.Println(q.Verify(&sigv4.Key{Secret: "not-for-use-anywhere"}, sum))
	fmt.Println(q.Verify(nil, sum))

	r.Header.Set("X-Amz-Meta", "added on the way")
	_, err = v.Parse(r, "sqs")
	fmt.Println(err)
	// Output:
	// TQORDERS01 <nil>
	// <nil>
	// InvalidClientTokenId: The security token included in the request is invalid.
	// SignatureDoesNotMatch: 'X-Amz-Meta' must be a 'SignedHeader' in the AWS Authorization.
}
