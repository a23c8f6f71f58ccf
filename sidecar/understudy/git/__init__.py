"""Floor 2: the one way to call git, and everything that is made with it.

``call`` holds the only function that starts git. ``repository`` finds and reads the user's repository, ``store`` makes
Understudy's own git directory beside it, ``base`` writes what the user sees into that store, ``tree`` makes working
trees of it and reads them back, ``bootstrap`` brings in what git does not carry, ``diff`` splits a result into hunks,
``names`` knows paths.

What becomes of a result: ``merge`` puts chosen hunks into what the user sees now, in memory (``lines`` is its
arithmetic); ``apply`` writes that into the user's files, all or nothing (``disk`` has the steps, ``recover`` the way
back), and ``undo`` takes it back; ``commits`` amends a result, ``follow`` starts from one, ``export`` takes it into the
user's history, ``rescue`` keeps a tree that is removed.

What must not happen here: git never discovers a repository through a folder that an agent wrote (git directory and work
tree are always explicit), nothing a repository configures is ever run (hooks, filters, drivers, monitors), and the
user's ``.git`` is only read, but for the one reference that ``base.pin`` writes, and what ``export`` adds when the
user asks for it. All functions are synchronous.

Contents are bytes: a base holds each file exactly as it lies in the user's checkout, so no line-ending or encoding
conversion takes place in a store or in a tree of it (``store.ATTRIBUTES``).

Go on with ``call``, then ``base.write_base``, then ``tree.create_tree``.
"""
