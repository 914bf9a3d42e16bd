// Command order charges a card for each order, stores the order and sends a mail. It does each of
// them once, even if the work takes long, a message is delivered twice, or a process dies half-way.
//
//	order [-records ADDRESS] send ORDER...              sends orders
//	order [-records ADDRESS] [-bank DURATION] work      handles orders until it is interrupted
//
// It finds the queue named order as every AWS SDK program does. Producers and workers share the
// records at the address: sqlite:PATH, with the orders in orders.db beside it, or postgres://...,
// with the orders in the same database. The second is better: an order and the record that it is
// done are then one commit.
//
// Package shop is the program.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"tenaq/examples/order/shop"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := shop.Run(ctx, os.Args[1:]); err != nil {
		log.Fatal("order: ", err)
	}
}
