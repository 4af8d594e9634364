"""Makes the shop's database: its people, what each role may do, and which versions of the agent are released.

    python seed.py [DATABASE]
"""

import sqlite3
import sys

SEED = """
    DROP TABLE IF EXISTS staff;
    DROP TABLE IF EXISTS permission;
    DROP TABLE IF EXISTS release;

    CREATE TABLE staff (tenant TEXT NOT NULL, person TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (tenant, person, role));
    INSERT INTO staff VALUES ('shop', 'ada', 'support'), ('shop', 'grace', 'manager');

    -- most_cents: above it a person is asked; NULL: no limit.
    CREATE TABLE permission (role TEXT NOT NULL, tool TEXT NOT NULL, most_cents INTEGER, PRIMARY KEY (role, tool));
    INSERT INTO permission VALUES
        ('support', 'orders.lookup', NULL),
        ('support', 'orders.issue_refund', 1000),
        ('manager', 'orders.lookup', NULL),
        ('manager', 'orders.issue_refund', NULL);

    CREATE TABLE release (version TEXT PRIMARY KEY, state TEXT NOT NULL);
    INSERT INTO release VALUES ('v1', 'live'), ('v2', 'trial');
"""

if __name__ == "__main__":
    connection = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else "staff.db")
    connection.executescript(SEED)
    connection.close()
