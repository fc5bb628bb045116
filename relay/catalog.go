package relay

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// describeRetry is how long a catalog that does not answer is left alone.
const describeRetry = time.Second

// catalog asks what the stream does not tell of a new relation. While there is no answer, the flow waits and goes on
// talking to Postgres: a guess would be a wrong mapping.
func (f *flow) catalog(ctx context.Context, relation *decoder.Relation) (router.Catalog, error) {
	defer f.progress.release()
	for {
		limited, cancel := context.WithTimeout(ctx, f.cfg.Postgres.StatusInterval())
		known, err := f.describe(limited, relation)
		cancel()
		if err == nil {
			return catalogOf(known), nil
		}
		f.progress.hold(fmt.Sprintf("the column types of table %s.%s cannot be looked up: %v", relation.Namespace, relation.Name, err))
		for retry := time.Now().Add(describeRetry); time.Now().Before(retry); {
			if err := f.wait(ctx); err != nil {
				return router.Catalog{}, err
			}
		}
	}
}

// describe asks over an ordinary connection. Types that were known before are known for good: rows of a type that was
// dropped meanwhile may still come. Only the reader calls it.
func (r *Relay) describe(ctx context.Context, relation *decoder.Relation) (replication.Known, error) {
	conn, err := r.connectSQL(ctx)
	if err != nil {
		return replication.Known{}, err
	}
	defer closeConn(conn)
	known, err := replication.Describe(ctx, conn, relation)
	if err != nil {
		return replication.Known{}, err
	}
	maps.Copy(r.types, known.Types)
	known.Types = r.types
	return known, nil
}

// catalogOf is what the router must know of the table's types beyond the stream.
func catalogOf(known replication.Known) router.Catalog {
	types := make(map[uint32]router.TypeInfo, len(known.Types))
	for oid, t := range known.Types {
		types[oid] = router.TypeInfo{Base: t.Base, BaseModifier: t.BaseModifier, Element: t.Element, Enum: t.Labels}
	}
	return router.Catalog{Types: types, NotNull: known.NotNull}
}
