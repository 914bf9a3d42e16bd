// Package pebblekv is a kv.Store on disk, on Pebble.
package pebblekv
