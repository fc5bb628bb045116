package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "check",
			Short: "Report every problem of the configuration at once; connects to nothing",
			Args:  noArguments,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if _, err := p.load(cmd); err != nil {
					return err
				}
				_, err := fmt.Fprintln(p.out, "the configuration is valid")
				return err
			},
		},
		&cobra.Command{
			Use:   "print",
			Short: "Print the configuration in effect, secrets masked, with the source of each value",
			Args:  noArguments,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := p.load(cmd)
				if _, writing := fmt.Fprint(p.out, c.YAML()); writing != nil {
					return writing
				}
				return err
			},
		},
	)
	return cmd
}
