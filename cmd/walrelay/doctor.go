package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/doctor"
	"github.com/walrelay/walrelay/fault"
)

// doctorFlags are what doctor can be told.
type doctorFlags struct {
	json bool
	doctor.Options
}

func (p *program) doctorCommand() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look over Postgres, Kafka and the configuration, and say what mends each finding",
		Long: `Look over Postgres and Kafka in the order in which things must be right, with the configuration that walrelay run would use,
and print for each finding the statement, setting or command that mends it, in the words of the service where the database
runs. It changes nothing and disturbs no relay that runs. Run it as the role of the relay: rights are part of it.

With --test-event it also inserts a row, waits until the relay that runs has published it, and deletes the row again: whoever
reads the topic sees an event of the type WalrelayTest. It needs SELECT, INSERT and DELETE on the table.

Exit code 3: something is marked FAIL. The others are those of walrelay --help.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd, flags) },
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "each finding as one JSON line")
	cmd.Flags().StringVar(&flags.TestValue, "test-event", "", "send a test event whose topic is made of this `value`, such as order")
	cmd.Flags().StringVar(&flags.TestTable, "test-table", "", "`schema.table` of the test event (default the first outbox table)")
	return cmd
}

// ailingError says that doctor found something that must be mended. The findings were printed.
type ailingError struct{}

func (ailingError) Error() string { return "something must be mended, see FAIL above" }

// FaultCode is the kind of the error.
func (ailingError) FaultCode() fault.Code { return fault.Doctor }

func (p *program) doctor(cmd *cobra.Command, flags doctorFlags) error {
	c, err := p.load(cmd)
	if err != nil {
		return err
	}
	settings, err := c.Relay()
	if err != nil {
		return err
	}
	ctx, stop := p.untilSignal(cmd.Context(), nil)
	defer stop()
	counts := map[doctor.Level]int{}
	failed, err := doctor.Examine(ctx, settings, flags.Options, func(f doctor.Finding) {
		counts[f.Level]++
		if flags.json {
			_ = json.NewEncoder(p.out).Encode(f) // a reader that went away
			return
		}
		p.printFinding(f)
	})
	if err != nil {
		return err
	}
	if !flags.json {
		fmt.Fprintf(p.out, "%d ok, %d to know, %d warnings, %d failures\n", counts[doctor.OK], counts[doctor.Info], counts[doctor.Warn], counts[doctor.Fail])
	}
	if failed {
		return ailingError{}
	}
	return nil
}

// marks are shown in front of a finding.
var marks = map[doctor.Level]string{doctor.OK: "ok", doctor.Info: "info", doctor.Warn: "WARN", doctor.Fail: "FAIL"}

func (p *program) printFinding(f doctor.Finding) {
	code := ""
	if f.Code != "" {
		code = fmt.Sprintf(" [%s]", f.Code)
	}
	fmt.Fprintf(p.out, "%-5s %s: %s%s\n", marks[f.Level], f.Check, strings.ReplaceAll(f.Text, "\n", "; "), code)
	if f.Remedy != "" {
		fmt.Fprintf(p.out, "      -> %s\n", f.Remedy)
	}
}
