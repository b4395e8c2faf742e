package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slipway-dev/slipway/backend"
)

// privilegesSQL returns the privileges in a schema that the role lacks: the privileges for
// reading and, if $2, for writing. It reads only catalogs, because names in a schema are not
// resolved without USAGE on it. Nextval accepts UPDATE for USAGE.
const privilegesSQL = `
SELECT current_user::text, right_, object FROM (
	SELECT 0 AS n, 'USAGE' AS right_, 'schema ' || $1::text AS object FROM pg_namespace n
		WHERE n.nspname = $1 AND NOT has_schema_privilege(n.oid, 'USAGE')
	UNION ALL
	SELECT w.n, w.right_, 'table ' || $1 || '.' || c.relname FROM pg_namespace n
		JOIN pg_class c ON c.relnamespace = n.oid
		JOIN (VALUES (1, 'meta', 'SELECT', false), (2, 'meta', 'UPDATE', true),
			(3, 'records', 'SELECT', false), (4, 'records', 'INSERT', true), (5, 'records', 'UPDATE', true), (6, 'records', 'DELETE', true),
			(7, 'horizons', 'SELECT', true), (8, 'horizons', 'INSERT', true), (9, 'horizons', 'DELETE', true)
		) AS w (n, name, right_, writes) ON c.relname = w.name
		WHERE n.nspname = $1 AND ($2 OR NOT w.writes) AND NOT has_table_privilege(c.oid, w.right_)
	UNION ALL
	SELECT 10, 'USAGE', 'sequence ' || $1 || '.' || c.relname FROM pg_namespace n
		JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'revisions'
		WHERE n.nspname = $1 AND $2 AND NOT has_sequence_privilege(c.oid, 'USAGE, UPDATE')
	UNION ALL
	SELECT 11, 'EXECUTE', 'function ' || $1 || '.' || p.proname FROM pg_namespace n
		JOIN pg_proc p ON p.pronamespace = n.oid AND (p.proname = 'changes' OR $2 AND p.proname = 'write')
		WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE')
) AS missing ORDER BY n, object`

// checkPrivileges returns an error that names the privileges that the role of the store lacks.
func (s *Store) checkPrivileges(ctx context.Context) error {
	var role, right, object string
	var rights, objects []string // in the same order
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, privilegesSQL, s.o.Schema, !s.o.ReadOnly)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&role, &right, &object}, func() error {
			rights, objects = append(rights, right), append(objects, object)
			return nil
		})
	}
	switch {
	case err != nil:
		return withoutSecrets(err)
	case len(rights) == 0:
		return nil
	}
	var lacks []string
	for i := 0; i < len(rights); {
		of := rights[i:]
		for n := range of {
			if objects[i+n] != objects[i] {
				of = of[:n]
				break
			}
		}
		lacks = append(lacks, strings.Join(of, ", ")+" on "+objects[i])
		i += len(of)
	}
	return fmt.Errorf("%w: the role %s lacks %s (GRANT them as the owner of the tables)", backend.ErrPermanent, role, strings.Join(lacks, "; "))
}

// lacksPrivilege reports whether the server refused a statement because of a privilege.
func lacksPrivilege(err error) bool {
	e, is := errors.AsType[*pgconn.PgError](err)
	return is && e.Code == "42501"
}
