package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tenaq/internal/bench"
)

// rabbitWrapper runs RabbitMQ beside the port mapper that it needs, which otherwise would start in
// the background and stay.
const rabbitWrapper = `"$1" -port "$ERL_EPMD_PORT" -address 127.0.0.1 & exec "$2"`

func startRabbitMQ(ctx context.Context, at *place) (server, error) {
	return startRabbit(ctx, at, false)
}

func startRabbitMQGet(ctx context.Context, at *place) (server, error) {
	return startRabbit(ctx, at, true)
}

// startRabbit starts a node of RabbitMQ without plugins, whose consumers have messages pushed to
// them or get them one by one. The script of the distribution changes to another user; the one
// below /usr/lib does not.
func startRabbit(ctx context.Context, at *place, get bool) (server, error) {
	path, err := program("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
	if err != nil {
		return nil, err
	}
	mapper, err := program("epmd")
	if err != nil {
		return nil, err
	}
	var more [2]string
	for i := range more {
		if more[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	file := func(name string) string { return filepath.Join(at.dir, name) }
	if err := os.WriteFile(file("plugins"), []byte("[].\n"), 0o600); err != nil {
		return nil, err
	}
	p, err := start(at, []string{"HOME=" + at.dir, "RABBITMQ_NODENAME=tenaq-peer@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + at.port,
		"RABBITMQ_DIST_PORT=" + more[0], "ERL_EPMD_PORT=" + more[1],
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + file("data"), "RABBITMQ_LOG_BASE=" + file("logs"),
		"RABBITMQ_CONFIG_FILE=" + file("none"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + file("none"),
		"RABBITMQ_CONF_ENV_FILE=" + file("none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + file("plugins"),
		"RABBITMQ_LOGS=-", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}, "/bin/sh", "-c", rabbitWrapper, "rabbitmq", mapper, path)
	if err != nil {
		return nil, err
	}
	url := "amqp://guest:guest@127.0.0.1:" + at.port + "/"
	return &broker{p,
			func(_ context.Context, queue string) error {
				return onChannel(url, func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclare(queue, true, false, false, false,
						amqp.Table{"x-queue-type": "quorum"})
					return err
				})
			},
			func(queue string) error {
				return onChannel(url, func(ch *amqp.Channel) error {
					_, err := ch.QueueDelete(queue, false, false, false)
					return err
				})
			},
			func(_ context.Context, queue string, w *bench.Work) (client, error) {
				return dialRabbitMQ(url, queue, w, get)
			}},
		p.ready(ctx, func(context.Context) error {
			return onChannel(url, func(*amqp.Channel) error { return nil })
		})
}

func onChannel(url string, do func(*amqp.Channel) error) error {
	c, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer c.Close()
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

// A rabbit publishes a batch at once and waits for all confirms. It consumes with a prefetch of a
// batch, or gets messages one by one, and acknowledges all of a batch with one frame.
type rabbit struct {
	queue      string
	connection *amqp.Connection
	channel    *amqp.Channel
	confirms   []*amqp.DeferredConfirmation
	deliveries <-chan amqp.Delivery // nil without a subscription
	received   []amqp.Delivery
}

func dialRabbitMQ(url, queue string, w *bench.Work, get bool) (c *rabbit, err error) {
	c = &rabbit{queue: queue}
	if c.connection, err = amqp.Dial(url); err != nil {
		return nil, err
	}
	if c.channel, err = c.connection.Channel(); err != nil {
		return nil, err
	}
	if err := c.channel.Confirm(false); err != nil {
		return nil, err
	}
	if w.Kind == bench.Send || get {
		return c, nil
	}
	if err := c.channel.Qos(w.Batch, 0, false); err != nil {
		return nil, err
	}
	c.deliveries, err = c.channel.Consume(queue, "", false, false, false, false, nil)
	return c, err
}

func (c *rabbit) send(bodies []string) error {
	c.confirms = c.confirms[:0]
	for _, body := range bodies {
		confirm, err := c.channel.PublishWithDeferredConfirm("", c.queue, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
		if err != nil {
			return err
		}
		c.confirms = append(c.confirms, confirm)
	}
	for _, confirm := range c.confirms {
		if !confirm.Wait() {
			return errors.New("the server did not confirm a message")
		}
	}
	return nil
}

func (c *rabbit) consume(n int, until time.Time) (int, error) {
	if c.deliveries == nil {
		return c.get(n)
	}
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	for len(c.received) < n {
		select {
		case d, ok := <-c.deliveries:
			if !ok {
				return 0, errors.New("the server closed the channel")
			}
			c.received = append(c.received, d)
		case <-late.C:
			return 0, nil
		}
	}
	err := c.received[n-1].Ack(true)
	c.received = c.received[:0]
	return n, err
}

// get asks for each message.
func (c *rabbit) get(n int) (got int, err error) {
	var last amqp.Delivery
	for got < n {
		d, ok, err := c.channel.Get(c.queue, false)
		if err != nil {
			return 0, err
		}
		if !ok {
			break // there are no more
		}
		last = d
		got++
	}
	if got > 0 {
		err = last.Ack(true)
	}
	return got, err
}

func (c *rabbit) close() { c.connection.Close() }
