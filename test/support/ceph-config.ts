/**
 * The smallest Ceph that is a true S3: one monitor, one object daemon, one gateway, no authentication between them. The
 * three `ms mon … mode` lines are needed with it: without them the gateway never starts. Without `tcp_nodelay` every small
 * answer takes 44 ms.
 */
export interface CephPorts {
  readonly monitor: number;
  readonly gateway: number;
  readonly osdFirst: number;
  readonly osdLast: number;
}

export function makeCephConfig(folder: string, fsid: string, ports: CephPorts): string {
  return `[global]
fsid = ${fsid}
mon initial members = a
mon host = v2:127.0.0.1:${ports.monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms type = async+posix
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms mon service mode = crc
ms mon cluster mode = crc
paxos propose interval = 0.05
paxos min wait = 0.01
run dir = ${folder}/out
admin socket = ${folder}/out/$name.asok
log file = ${folder}/log/$name.log
crash dir = ${folder}/out
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
[mon]
mon data = ${folder}/mon
mon data avail warn = 2
mon data avail crit = 1
mon cluster log file = ${folder}/log/cluster.log
[osd]
osd data = ${folder}/osd
osd objectstore = bluestore
ms bind port min = ${ports.osdFirst}
ms bind port max = ${ports.osdLast}
bluestore block create = true
bluestore block size = 8589934592
osd memory target = 939524096
osd class load list = *
osd class default list = *
[client.rgw]
rgw data = ${folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:${ports.gateway} tcp_nodelay=1
rgw dns name = localhost
rgw thread pool size = 64
rgw run sync thread = false
rgw enable usage log = false
rgw gc obj min wait = 30
rgw gc processor period = 30
rgw gc processor max time = 30
`;
}
