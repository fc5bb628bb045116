package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/router"
)

// undecidedError is a translation that a person must finish.
type undecidedError struct{ open []config.ImportFinding }

func (e *undecidedError) Error() string {
	var names []string
	for _, f := range e.open {
		names = append(names, f.Property)
	}
	return fmt.Sprintf("%d to be decided before the configuration is used: %s; each is explained at the top of it", len(names), strings.Join(names, ", "))
}

// FaultCode is the kind of the error.
func (e *undecidedError) FaultCode() fault.Code { return fault.Configuration }

func (p *program) importDebeziumCommand() *cobra.Command {
	var output, worker string
	cmd := &cobra.Command{
		Use:   "import-debezium file",
		Short: "Translate the configuration of a Debezium connector",
		Long: `Translate the configuration of a Debezium Postgres connector with the Outbox Event Router. The file is its JSON, as
Connect takes it or answers it (GET /connectors/<name>), or its .properties. The result is a configuration file. Its
comments answer every property: translated, not needed, or not supported, and then what happens instead. Secrets are
never copied.

A connector does not tell where Kafka is, nor always its converters: Connect takes those from its worker. Name the
worker's properties with --worker, or the brokers with --kafka-brokers.

Exit code 3 means that something must be decided by a person. How to go on: docs/takeover.md.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{cmd.CommandPath(), errors.New("want one file")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			options, err := readConnector(args[0])
			if err != nil {
				return err
			}
			var properties map[string]string
			if worker != "" {
				if properties, err = readConnector(worker); err != nil {
					return err
				}
			}
			return p.importDebezium(options, properties, output)
		},
	}
	cmd.Flags().StringVar(&worker, "worker", "", "`file` with the properties of the Connect worker")
	cmd.Flags().StringVar(&output, "output", "", "`file` to write instead of standard output; it must not exist")
	return cmd
}

// fileError is a file that cannot be used as it was named.
type fileError struct{ error }

func readConnector(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError{err}
	}
	options, err := router.ParseDebezium(content)
	if err != nil {
		return nil, fileError{fmt.Errorf("%s: %w", filepath.Base(path), err)}
	}
	return options, nil
}

func (p *program) importDebezium(options, worker map[string]string, output string) error {
	var brokers []string
	for _, list := range *p.flags.values["kafka.brokers"] {
		brokers = append(brokers, strings.Split(list, ",")...)
	}
	imported := config.FromDebezium(options, worker, brokers)
	text := imported.YAML()
	if output == "" {
		if _, err := io.WriteString(p.out, text); err != nil {
			return err
		}
	} else if err := writeNew(output, text); err != nil {
		return err
	}
	if open := imported.Decisions(); len(open) > 0 {
		return &undecidedError{open}
	}
	return nil
}

// writeNew writes a file that must not be there.
func writeNew(path, text string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError{err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(text)
	return err
}
