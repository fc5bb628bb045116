package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// commandTimeout bounds a command that prints a secret.
const commandTimeout = 10 * time.Second

// source is a secret that may change while the program runs: a text, or a file or command that is asked each time.
type source struct {
	key     string // of the text; those of the file and the command begin with it
	text    Secret
	file    string
	command string
}

func (s source) given() bool { return s.text.Reveal() != "" || s.file != "" || s.command != "" }

// read is the secret of this moment. An error has no part of it, and nothing that the command wrote.
func (s source) read() (string, error) {
	switch {
	case s.file != "":
		return secretFile(s.key+"_file", s.file)
	case s.command != "":
		return secretCommand(s.key+"_command", s.command)
	}
	return s.text.Reveal(), nil
}

// secretFile reads a file. The line end that an editor leaves does not belong to the secret.
func secretFile(key, path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s %q cannot be read: %s", key, path, cause(err))
	}
	text := strings.TrimRight(string(content), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s %q: the file is empty", key, path)
	}
	return text, nil
}

// secretCommand runs a program and takes what it prints.
func secretCommand(key, line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", fmt.Errorf("%s: no program in it", key)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second // for a child of it that keeps the pipe open
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", commandTimeout)
		}
		return "", fmt.Errorf("%s: %s: %w", key, words[0], err)
	}
	text := strings.TrimRight(out.String(), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s: %s printed nothing", key, words[0])
	}
	return text, nil
}

// source is where the password is.
func (p Postgres) source() source {
	return source{"postgres.password", p.Password, p.PasswordFile, p.PasswordCommand}
}

// password is asked before each connection; nil means that of the URL.
func (p Postgres) password() func() (string, error) {
	switch s := p.source(); {
	case s.given():
		return s.read
	case p.URLFile != "":
		return p.urlPassword
	}
	return nil
}

// urlPassword is the password in the file of the URL as it is now. All else of a changed URL counts from the next start on.
func (p Postgres) urlPassword() (string, error) {
	url, err := secretFile("postgres.url_file", p.URLFile)
	if err != nil {
		return "", err
	}
	parsed, err := pgconn.ParseConfig(url)
	if err != nil {
		return "", errors.New("postgres.url_file: what it holds now is no connection string") // err could repeat it
	}
	return parsed.Password, nil
}

// source is where the password, client secret or token is.
func (s SASL) source() source {
	return source{"kafka.sasl.password", s.Password, s.PasswordFile, s.PasswordCommand}
}

func (h HTTP) source() source { return source{"http.token", h.Token, h.TokenFile, ""} }
