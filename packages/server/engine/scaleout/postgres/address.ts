/** Where a PostgreSQL is and how it is spoken to: what the composition root makes of `--metadata postgres://…`. */

export interface PostgresAddress {
  /** name or address, without brackets */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** `prefer`: encrypted if the server can; `require`: always; `verify-full`: and the certificate must be the host's */
  readonly tls: 'disable' | 'prefer' | 'require' | 'verify-full';
  /** file of the certificates that `verify-full` trusts; undefined: the system's */
  readonly tlsRootFile: string | undefined;
  /** connections of one process */
  readonly connectionsMax: number;
}
