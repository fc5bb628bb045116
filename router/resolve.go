package router

import (
	"errors"

	"github.com/walrelay/walrelay/decoder"
)

// ColumnsOf are the columns of a table that have a meaning of their own, with those filled in that Config leaves to a
// preset.
func (c Config) ColumnsOf(rel *decoder.Relation) Columns {
	return c.resolved(columnNames(rel)).Columns
}

// RoutedBy is the column of the relation that decides on the topic.
func (c Config) RoutedBy(rel *decoder.Relation) string {
	return c.resolved(columnNames(rel)).Route.Field
}

// IDHeader is the name of the header with the event id.
func (c Config) IDHeader(rel *decoder.Relation) string {
	return c.resolved(columnNames(rel)).Headers.ID
}

// TopicOf is the topic that a row of the relation goes to when the column RoutedBy has the value.
func (c Config) TopicOf(rel *decoder.Relation, value string) (string, error) {
	router, problems := newTopicRouter(c.resolved(columnNames(rel)).Route, nil)
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	return router.make([]byte(value))
}
