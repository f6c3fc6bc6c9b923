#!/bin/sh
# Starts the Ceph of ceph.conf in the foreground, on data in CEPH_HOME, which it makes the first time: a user with the key of
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and the bucket BUCKET.
set -eu

: "${CEPH_HOME:=/var/lib/ceph/holdfast}" "${CEPH_S3_PORT:=7480}" "${BUCKET:=holdfast}"
: "${AWS_ACCESS_KEY_ID:?is missing}" "${AWS_SECRET_ACCESS_KEY:?is missing}"
here=$(dirname -- "$(readlink -f -- "$0")")

mkdir -p "$CEPH_HOME/mon" "$CEPH_HOME/osd" "$CEPH_HOME/rgw" "$CEPH_HOME/log" "$CEPH_HOME/out"
export CEPH_CONF="$CEPH_HOME/ceph.conf"
[ -f "$CEPH_HOME/fsid" ] || cat /proc/sys/kernel/random/uuid >"$CEPH_HOME/fsid"
fsid=$(cat "$CEPH_HOME/fsid")
{
  sed -e "s|\$CEPH_HOME|$CEPH_HOME|g" -e "s|\$CEPH_S3_PORT|$CEPH_S3_PORT|g" "$here/ceph.conf"
  printf '\n[global]\nfsid = %s\n' "$fsid"
} >"$CEPH_CONF"

# The daemons end with this script, however it ends.
pids=
end() {
  trap - EXIT TERM INT
  for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
  exit "${1:-1}"
}
trap 'end 1' EXIT
trap 'end 0' TERM INT

# until_ready WHAT COMMAND…
until_ready() {
  what=$1
  shift
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ]; then
      echo "$what did not start; see $CEPH_HOME/log" >&2
      exit 1
    fi
    sleep 0.5
  done
}
is_osd_up() { ceph osd stat | grep -q '\b1 up\b'; }

is_new=no
if [ ! -f "$CEPH_HOME/ready" ]; then
  is_new=yes
  rm -rf "$CEPH_HOME/mon" "$CEPH_HOME/osd"
  mkdir -p "$CEPH_HOME/mon" "$CEPH_HOME/osd"
  monmaptool --create --clobber --fsid "$fsid" --addv a '[v2:127.0.0.1:33000]' "$CEPH_HOME/monmap"
  ceph-mon --mkfs -i a --monmap "$CEPH_HOME/monmap"
fi
ceph-mon -f -i a >"$CEPH_HOME/log/mon.out" 2>&1 &
pids="$pids $!"
until_ready 'the monitor' ceph --connect-timeout 5 mon stat
if [ "$is_new" = yes ]; then
  osd=$(cat /proc/sys/kernel/random/uuid)
  ceph osd new "$osd" >/dev/null
  ceph-osd --mkfs -i 0 --osd-uuid "$osd"
else
  # Else everybody waits for the one of the last start until the monitor has noticed that it is gone.
  ceph osd down osd.0 >/dev/null 2>&1 || true
fi
ceph-osd -f -i 0 >"$CEPH_HOME/log/osd.out" 2>&1 &
pids="$pids $!"
until_ready 'the object daemon' is_osd_up
radosgw -f -n client.rgw >"$CEPH_HOME/log/rgw.out" 2>&1 &
pids="$pids $!"
until_ready 'the gateway' curl -fs "http://127.0.0.1:$CEPH_S3_PORT/"
if [ "$is_new" = yes ]; then
  radosgw-admin -n client.rgw user create --uid=holdfast --display-name=holdfast \
    --access-key="$AWS_ACCESS_KEY_ID" --secret-key="$AWS_SECRET_ACCESS_KEY" >/dev/null
  touch "$CEPH_HOME/ready"
fi
# Making a bucket that is there already, and one's own, succeeds.
curl -fsS -X PUT --aws-sigv4 'aws:amz:us-east-1:s3' --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
  -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "http://127.0.0.1:$CEPH_S3_PORT/$BUCKET"
echo "S3 is ready on port $CEPH_S3_PORT, bucket $BUCKET"
touch "$CEPH_HOME/out/serving"
wait
