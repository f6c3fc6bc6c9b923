/** Rows as they are at one time, as a backup of the database has them. */
import { SQL } from 'bun';

/** A copy of the database as it is now; nobody is connected to it. */
export async function copyDatabase(url: string): Promise<string> {
  const admin = new URL(url);
  const name = admin.pathname.slice(1);
  admin.pathname = '/postgres';
  await using sql = new SQL(admin.href, { max: 1 });
  const copy = `${name}_copy`;
  await sql.unsafe(`CREATE DATABASE "${copy}" TEMPLATE "${name}"`);
  const target = new URL(url);
  target.pathname = `/${copy}`;
  return target.href;
}
