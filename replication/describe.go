package replication

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
)

// Known is what the catalog says of a relation of the stream beyond what the stream says. It is of the moment when it was
// asked, and the stream may be behind: types are looked up by oid, since those never change their meaning, and one that was
// dropped since is absent.
type Known struct {
	// NotNull has the columns with a NOT NULL constraint.
	NotNull map[string]bool
	// Types has the types of the columns that are not built in, and the types that those are made of, by oid.
	Types map[uint32]Type
}

// Type is a type that is not built in.
type Type struct {
	// Base and BaseModifier are the type under a domain, and its modifier; 0 and -1 for other types.
	Base         uint32
	BaseModifier int32
	// Element is the type of an array's elements.
	Element uint32
	// Labels are those of an enum, in its order.
	Labels []string
}

const (
	notNullSQL = `SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND attnotnull AND NOT attisdropped`

	typesSQL = `
	WITH RECURSIVE used(oid) AS (
	    SELECT unnest($1::oid[])
	    UNION
	    SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END
	    FROM used u JOIN pg_type t ON t.oid = u.oid
	    WHERE t.typtype = 'd' OR t.typcategory = 'A')
	SELECT t.oid, t.typbasetype, t.typtypmod, CASE WHEN t.typtype <> 'd' AND t.typcategory = 'A' THEN t.typelem ELSE 0 END,
	       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)
	FROM used u JOIN pg_type t ON t.oid = u.oid
	WHERE t.oid >= 16384` // FirstNormalObjectId
)

// Describe asks the catalog about a relation. It takes no lock that DDL on the table could hold up.
func Describe(ctx context.Context, conn *pgx.Conn, rel *decoder.Relation) (Known, error) {
	known := Known{NotNull: map[string]bool{}, Types: map[uint32]Type{}}
	oids := make([]uint32, len(rel.Columns))
	for i, c := range rel.Columns {
		oids[i] = c.Type
	}
	rows, err := conn.Query(ctx, notNullSQL, rel.ID)
	var column string
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&column}, func() error {
			known.NotNull[column] = true
			return nil
		})
	}
	if err == nil {
		rows, err = conn.Query(ctx, typesSQL, oids)
	}
	var oid uint32
	var t Type
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&oid, &t.Base, &t.BaseModifier, &t.Element, &t.Labels}, func() error {
			known.Types[oid] = t
			t = Type{}
			return nil
		})
	}
	if err != nil {
		return Known{}, fmt.Errorf("describe table %s.%s: %w", rel.Namespace, rel.Name, err)
	}
	return known, nil
}
