package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// What a bank says that is no charge.
var (
	errNoCharge = errors.New("there is no such charge")
	errPending  = errors.New("the card is about to be charged")
)

// A bankClient asks a bank. Each request has a connection of its own: Go sends a request with an idempotency
// key again by itself when an old connection turns out to be closed, and the demo wants to see the error.
type bankClient struct {
	url  string
	http http.Client
}

func newBankClient(url string) *bankClient {
	return &bankClient{url, http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// charge charges a card; once for all calls with the same key, if there is a key.
func (b *bankClient) charge(ctx context.Context, key, reference string, cents int) (id string, err error) {
	body, _ := json.Marshal(chargeRequest{reference, cents}) // nothing in it can fail to be encoded
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return b.ask(req)
}

// find looks for the charge that was made with a reference: errNoCharge when there is none, errPending when it
// is being made.
func (b *bankClient) find(ctx context.Context, reference string) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/charges/"+reference, nil)
	if err != nil {
		return "", err
	}
	return b.ask(req)
}

func (b *bankClient) ask(req *http.Request) (id string, err error) {
	resp, err := b.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusNotFound:
		return "", errNoCharge
	case resp.StatusCode == http.StatusConflict:
		return "", errPending
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the bank answers %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	var c charge
	err = json.Unmarshal(body, &c)
	return c.ID, err
}
