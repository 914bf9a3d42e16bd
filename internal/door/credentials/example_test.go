package credentials_test

import (
	"fmt"
	"os"
	"path/filepath"

	"tenaq/internal/door/credentials"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "credentials.json")
	os.WriteFile(path, []byte(`{"credentials": [
		{"id": "TQORDERS01", "secret": "not-for-use-anywhere", "name": "orders", "allow": ["sqs:SendMessage", "sqs:Get*"]}
	]}`), 0o600)

	keys, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		panic(err)
	}
	k := keys.Find("TQORDERS01")
	fmt.Println(k)
	fmt.Println(k.Secret, k.Allows("sqs:SendMessage"), k.Allows("sqs:ReceiveMessage"))
	// Output:
	// TQORDERS01 of arn:aws:iam::000000000000:user/orders
	// [redacted] true false
}
