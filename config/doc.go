// Package config is the configuration of the program as one documented value, Config. Load puts it together from flags,
// environment variables, a YAML file and defaults, in this order of precedence, and checks it; Relay makes of it the Config
// types of the packages that do the work.
//
// Every key is a field of Config or of a struct inside it; names, environment variables, docs/configuration.md and
// walrelay.example.yaml all come from these fields and their comments. Problems are collected, so that a person sees
// all of them at once, and no text made here contains a secret.
//
// It reads the files that it is given and nothing else: no global state, no file found by itself, no connection.
//
// Concurrency: a Config is a value; nothing here starts a goroutine.
package config
