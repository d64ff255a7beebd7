"""Groups of endpoints and groups of users. Both kinds of groups have the same operations, on different tables.

A group must exist before it can have members. A group cannot be renamed or deleted while a policy uses its name.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Uuid, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.orm import InstrumentedAttribute, Session

from nac.core.audit import service as audit
from nac.engine.references import ReferenceKind
from nac.kit.advice import Advice
from nac.kit.db import lock_quota
from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AlreadyExists, Conflict, InUse, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import parse_id, require_name
from nac.models import EndpointGroup, EndpointGroupMember, UserGroup, UserGroupMember
from nac.tenancy.policy_references import require_renamable, require_unreferenced

# Maximum number of groups of each kind in a tenant, and of new groups in one request.
MAX_GROUPS = 5_000
MAX_NEW_GROUPS = 1_000
_PAIRS_PER_STATEMENT = 50_000

GroupT = TypeVar("GroupT", EndpointGroup, UserGroup)


class UnknownGroup(NotFound):
    """The group does not exist."""


class TooManyGroups(Conflict):
    """The tenant would exceed its maximum number of groups."""


class GroupByRule(Conflict):
    """A rule sets the members of this group."""


def is_by_rule(group: EndpointGroup | UserGroup) -> bool:
    return isinstance(group, EndpointGroup) and group.rule is not None


@dataclass(frozen=True, slots=True)
class Groups(Generic[GroupT]):
    """Operations on the groups of one kind: endpoint groups or user groups."""

    # Kind of reference with which policies refer to these groups. Also the prefix of actions in the audit log.
    kind: ReferenceKind
    group: type[GroupT]
    membership: type[EndpointGroupMember] | type[UserGroupMember]
    member_column: InstrumentedAttribute[UUID]

    # Ids of the API operations that error messages recommend.
    list_operation: str
    create_operation: str

    def create(self, session: Session, *, actor: str, tenant_id: TenantId, name: str) -> GroupT:
        name = require_name(name)
        lock_quota(session, f"{self.kind}s", tenant_id)
        self._require_room(session, tenant_id, 1)
        if self._get(session, tenant_id, name) is not None:
            raise AlreadyExists(f"Group {name!r} already exists.", place="name")
        group = self.group(tenant_id=tenant_id, name=name)
        session.add(group)
        session.flush()
        audit.append(session, actor=actor, action=f"{self.kind}.create", target=name, tenant_id=tenant_id)
        return group

    def create_many(self, session: Session, *, actor: str, tenant_id: TenantId, names: Collection[str]) -> None:
        """Create groups. The caller must have checked the names.

        Skips groups that another transaction created meanwhile. Raises TooManyGroups.
        """
        if not names:
            return
        lock_quota(session, f"{self.kind}s", tenant_id)
        self.require_creatable(session, tenant_id=tenant_id, names=names)
        adding = insert_or_skip(self.group).on_conflict_do_nothing().returning(self.group.name)
        made = session.scalars(adding, [{"tenant_id": tenant_id, "name": name} for name in names])
        entry = {"actor": actor, "action": f"{self.kind}.create", "tenant_id": tenant_id}
        audit.append_in_batches(session, [entry | {"target": name} for name in made])

    def require_creatable(self, session: Session, *, tenant_id: TenantId, names: Collection[str]) -> None:
        """Raise TooManyGroups if these new groups would exceed a limit.

        If you create the groups afterwards, call `lock_quota` before this function.
        """
        if len(names) > MAX_NEW_GROUPS:
            raise TooManyGroups(
                f"{len(names)} new groups exceed the limit.",
                place="groups",
                remedy=f"Create at most {MAX_NEW_GROUPS} groups at once.",
            )
        if names:
            self._require_room(session, tenant_id, len(names))

    def _require_room(self, session: Session, tenant_id: TenantId, more: int) -> None:
        there = session.scalars(select(func.count()).where(self.group.tenant_id == tenant_id)).one()
        if there + more > MAX_GROUPS:
            raise TooManyGroups(
                f"The tenant has {there} groups; the maximum is {MAX_GROUPS}.",
                place="groups",
                remedy=f"Delete groups that you no longer need (maximum {MAX_GROUPS}).",
            )

    def rename(self, session: Session, *, actor: str, tenant_id: TenantId, name: str, new_name: str) -> GroupT:
        """Rename a group. The members of the group do not change.

        Raises InUse if a published policy or a draft contains the group's name, or compares a part of the name, because
        Admit does not change names in policies. Also raises InUse if the tenant's template contains the group, because
        a roll-out of the template would create a group with the old name again, without members.
        """
        group = self.require(session, tenant_id=tenant_id, name=name)
        new_name = require_name(new_name)
        if new_name == name:
            return group
        if self._get(session, tenant_id, new_name) is not None:
            raise AlreadyExists(f"Group {new_name!r} already exists.", place="name")
        require_renamable(session, tenant_id=tenant_id, kind=self.kind, name=name, new_name=new_name, place="name")
        self._require_not_in_template(session, name)
        group.name = new_name
        session.flush()
        audit.append(
            session,
            actor=actor,
            action=f"{self.kind}.rename",
            target=new_name,
            tenant_id=tenant_id,
            before={"name": name},
            after={"name": new_name},
        )
        return group

    def _require_not_in_template(self, session: Session, name: str) -> None:
        kind = self.kind.removesuffix("-group")
        if session.scalar(select(func.template_has_group(kind, name))):
            raise InUse(
                f"The tenant's template contains group {name!r}.",
                place="name",
                remedy=f"Roll out a version of the template without this group, or make group:{kind}/{name} an"
                " override of the tenant.",
            )

    def remove(self, session: Session, *, actor: str, tenant_id: TenantId, name: str) -> None:
        """Delete a group, but not its members. Raises InUse while a published policy or a draft uses the group."""
        group = self.require(session, tenant_id=tenant_id, name=name)
        count = self._count_members(session, group)
        require_unreferenced(
            session,
            tenant_id=tenant_id,
            kind=self.kind,
            name=name,
            place="group",
            also=f"The group has {count} member{'' if count == 1 else 's'}.",
        )
        session.delete(group)
        session.flush()
        audit.append(session, actor=actor, action=f"{self.kind}.remove", target=name, tenant_id=tenant_id)

    def require(self, session: Session, *, tenant_id: TenantId, name: str) -> GroupT:
        """Return a group, locked until the transaction ends. Raises UnknownGroup."""
        group = self._get(session, tenant_id, name, lock=True)
        if group is None:
            raise UnknownGroup(
                f"Group {name!r} does not exist.", place="group", remedy=Advice("List groups", self.list_operation)
            )
        return group

    def list_for_member(self, session: Session, *, tenant_id: TenantId, member_id: UUID) -> Sequence[GroupT]:
        query = (
            select(self.group)
            .join(self.membership, self.group.id == self.membership.group_id)
            .where(self.membership.tenant_id == tenant_id, self.member_column == member_id)
            .order_by(self.group.name)
        )
        return session.scalars(query).all()

    def list_all(self, session: Session, *, tenant_id: TenantId) -> Sequence[GroupT]:
        query = select(self.group).where(self.group.tenant_id == tenant_id).order_by(self.group.name)
        return session.scalars(query).all()

    @property
    def orders(self) -> SortOrders:
        return SortOrders({"name": (self.group.name,)})

    def list_page(
        self, session: Session, *, tenant_id: TenantId, span: PageSpan | None = None, text: str = ""
    ) -> Sequence[GroupT]:
        """List a page of groups. `text` filters by a part of the name."""
        query = (span or self.orders.first()).of(select(self.group).where(self.group.tenant_id == tenant_id))
        return session.scalars(query.where(contains_text(text, self.group.name)) if text else query).all()

    def require_by_key(self, session: Session, *, tenant_id: TenantId, key: str, lock: bool = False) -> GroupT:
        """Return a group by id or name. Raises UnknownGroup."""
        group = None
        if (group_id := parse_id(key)) is not None:
            query = select(self.group).where(self.group.tenant_id == tenant_id, self.group.id == group_id)
            group = session.scalar(query.with_for_update() if lock else query)
        if group is None:
            group = self._get(session, tenant_id, key, lock=lock)
        if group is None:
            raise UnknownGroup(f"Group {key!r} does not exist.", place="group")
        return group

    def names_of(
        self, session: Session, *, tenant_id: TenantId, member_ids: Collection[UUID], by_rule: bool = True
    ) -> Mapping[UUID, tuple[str, ...]]:
        """Map the id of each endpoint or user to the sorted names of its groups. Omits members without groups.

        If `by_rule` is false, omits groups by rule.
        """
        query = (
            select(self.member_column, self.group.name)
            .join(self.group, self.group.id == self.membership.group_id)
            .where(self.membership.tenant_id == tenant_id, in_array(self.member_column, member_ids))
            .order_by(self.group.name)
        )
        if not by_rule and issubclass(self.group, EndpointGroup):
            query = query.where(EndpointGroup.rule.is_(None))
        names: defaultdict[UUID, list[str]] = defaultdict(list)
        for member_id, name in session.execute(query):
            names[member_id].append(name)
        return {member_id: tuple(found) for member_id, found in names.items()}

    def assign(
        self, session: Session, *, tenant_id: TenantId, member_id: UUID, names: Iterable[str]
    ) -> tuple[str, ...]:
        """Replace the groups of an endpoint or user (`member_id`), except groups by rule. Returns the new names.

        `names` can contain a group by rule if the endpoint or user is already a member of this group. The result omits
        this group. Raises UnknownGroup with all unknown names, or GroupByRule.
        """
        present = set(session.scalars(select(self.membership.group_id).where(self.member_column == member_id)))
        named, by_rule = self._named(session, tenant_id, set(names), held=present)
        known = set(named.values())
        present -= by_rule
        if gone := present - known:
            session.execute(
                delete(self.membership).where(self.member_column == member_id, self.membership.group_id.in_(gone))
            )
        for group_id in known - present:
            session.add(self.membership(tenant_id=tenant_id, group_id=group_id, **{self.member_column.key: member_id}))
        session.flush()
        return tuple(sorted(named))

    def join(
        self, session: Session, *, tenant_id: TenantId, member_ids: Collection[UUID], names: Iterable[str]
    ) -> None:
        """Add the members to all these groups. Raises UnknownGroup or GroupByRule."""
        self.join_each(session, tenant_id=tenant_id, members=dict.fromkeys(names, member_ids))

    def join_each(self, session: Session, *, tenant_id: TenantId, members: Mapping[str, Collection[UUID]]) -> None:
        """Add members to groups. `members` maps the name of each group to the ids of its new members.

        The number of SQL statements does not depend on the number of groups. Raises UnknownGroup or GroupByRule.
        """
        known, _ = self._named(session, tenant_id, set(members))
        columns = ["tenant_id", self.member_column.key, "group_id"]
        pairs = [(member_id, known[name]) for name, joining in members.items() for member_id in joining]
        for start in range(0, len(pairs), _PAIRS_PER_STATEMENT):
            member_ids, group_ids = zip(*pairs[start : start + _PAIRS_PER_STATEMENT], strict=True)
            rows = select(
                literal(tenant_id, Uuid()), func.unnest(_uuid_array(member_ids)), func.unnest(_uuid_array(group_ids))
            )
            session.execute(insert_or_skip(self.membership).from_select(columns, rows).on_conflict_do_nothing())

    def leave_all(self, session: Session, *, tenant_id: TenantId, member_ids: Collection[UUID]) -> None:
        """Remove the members from all groups, except groups by rule."""
        _, by_rule = self._named(session, tenant_id, set())
        if member_ids:
            session.execute(
                delete(self.membership).where(
                    self.membership.tenant_id == tenant_id,
                    self.member_column == func.any(_uuid_array(member_ids)),
                    self.membership.group_id.not_in(by_rule),
                )
            )

    def leave(
        self, session: Session, *, tenant_id: TenantId, member_ids: Collection[UUID], names: Iterable[str]
    ) -> None:
        """Remove the members from all these groups. Raises UnknownGroup or GroupByRule."""
        known, _ = self._named(session, tenant_id, set(names))
        if member_ids and known:
            session.execute(
                delete(self.membership).where(
                    self.membership.tenant_id == tenant_id,
                    self.member_column == func.any(_uuid_array(member_ids)),
                    self.membership.group_id.in_(known.values()),
                )
            )

    def keep(self, session: Session, *, tenant_id: TenantId, names: Collection[str]) -> None:
        """Lock these groups until the transaction ends, so that other transactions cannot rename or delete them.

        To avoid deadlocks, call this function before you change members: a deletion locks the group before its members.
        """
        if names:
            query = select(self.group.id).where(self.group.tenant_id == tenant_id, in_array(self.group.name, names))
            session.execute(query.order_by(self.group.id).with_for_update(read=True, key_share=True))

    def _named(
        self, session: Session, tenant_id: TenantId, wanted: set[str], *, held: Collection[UUID] = ()
    ) -> tuple[dict[str, UUID], set[UUID]]:
        """Lock the groups with the names `wanted` (see `keep`). Returns their ids by name, and the ids of all groups by
        rule.

        `held` are the ids of the groups of which the endpoint or user is a member. The first result omits those groups
        by rule that are in `held`. Raises UnknownGroup, or GroupByRule for other groups by rule.
        """
        self.keep(session, tenant_id=tenant_id, names=wanted)
        groups = self.list_all(session, tenant_id=tenant_id)
        by_rule = {group.id: group.name for group in groups if is_by_rule(group)}
        wanted = wanted - {name for group_id, name in by_rule.items() if group_id in held}
        known = {group.name: group.id for group in groups if group.name in wanted}
        if missing := sorted(wanted - known.keys()):
            raise UnknownGroup(
                f"Unknown groups: {', '.join(repr(name) for name in missing)}.",
                place="groups",
                remedy=Advice("Create these groups first, or list groups.", self.create_operation, self.list_operation),
            )
        if ruled := sorted(wanted & set(by_rule.values())):
            raise GroupByRule(
                f"A rule sets the members of {', '.join(map(repr, ruled))}.",
                place="groups",
                remedy="Change the rule, or use a group without a rule.",
            )
        return known, set(by_rule)

    def _get(self, session: Session, tenant_id: TenantId, name: str, *, lock: bool = False) -> GroupT | None:
        query = select(self.group).where(self.group.tenant_id == tenant_id, self.group.name == name)
        return session.scalar(query.with_for_update() if lock else query)

    def _count_members(self, session: Session, group: GroupT) -> int:
        query = select(func.count()).where(
            self.membership.tenant_id == group.tenant_id, self.membership.group_id == group.id
        )
        return session.scalars(query).one()


def _uuid_array(ids: Collection[UUID]) -> ColumnElement[Sequence[UUID]]:
    """Return the ids as one array parameter. With a parameter per id, an import would exceed the limit of 65,535."""
    return literal(list(ids), ARRAY(Uuid()))


ENDPOINT_GROUPS = Groups(
    "endpoint-group",
    EndpointGroup,
    EndpointGroupMember,
    EndpointGroupMember.endpoint_id,
    list_operation="listEndpointGroups",
    create_operation="createEndpointGroup",
)
USER_GROUPS = Groups(
    "user-group",
    UserGroup,
    UserGroupMember,
    UserGroupMember.user_id,
    list_operation="listUserGroups",
    create_operation="createUserGroup",
)
